"""Trains an exported model on one person's messages, as a phone would, and says what it is worth.

tff-keyboard personalise trainable.tflite --text messages.tsv --user 12

The model is a file of `tff-keyboard export --trainable`; the text has lines `user<TAB>message`,
oldest first. The first part of the person's messages is trained on, the rest is predicted before
and after. Nothing is written.
"""

import pathlib
import sys
from collections.abc import Sequence

from absl import flags

from tasks import cli

FLAGS = flags.FlagValues()  # of this task alone
_TEXT = flags.DEFINE_string(
    "text", None, "File of messages, user<TAB>message, oldest first.", flag_values=FLAGS
)
_USER = flags.DEFINE_string(
    "user", None, "Whose messages; the person with the most words if left out.", flag_values=FLAGS
)
_TRAIN_SHARE = flags.DEFINE_float(
    "train_share",
    0.8,
    "Share of the messages, the first ones, to train on.",
    lower_bound=0.0,
    upper_bound=1.0,
    flag_values=FLAGS,
)
_LEARNING_RATE = flags.DEFINE_float("learning_rate", 0.05, "Of SGD.", flag_values=FLAGS)
_EPOCHS = flags.DEFINE_integer(
    "epochs", 1, "Passes over the messages.", lower_bound=1, flag_values=FLAGS
)
_RUNTIME = flags.DEFINE_enum(
    "runtime",
    None,
    ["litert", "tensorflow"],
    "Interpreter; the first installed if left out.",
    flag_values=FLAGS,
)

MOST_WORDS = 1_000_000_000  # the whole file


def run(
    model: pathlib.Path,
    text: pathlib.Path,
    *,
    user: str | None = None,
    train_share: float = 0.8,
    learning_rate: float = 0.05,
    epochs: int = 1,
    runtime: str | None = None,
):
    """Personalises in memory and prints the change in recall.

    Returns:
      `tflite_export.personalisation.PersonalisationReport`.

    Raises:
      ExportError: The model cannot train, or the text has no such user or too few messages.
    """
    from tflite_export import interpreters, personalisation, texts
    from tflite_export.errors import ExportError
    from tflite_export.runtime import KeyboardPredictor

    interpreters.import_quietly(runtime)
    predictor = KeyboardPredictor(model, runtime=runtime)
    people = texts.from_file(text, predictor.vocabulary.rules, max_words=MOST_WORDS)
    if user is None:
        user = max(people, key=lambda name: sum(map(len, people[name])))
    if user not in people:
        raise ExportError(f"`user` {user!r} has no messages in {text}.")
    messages = people[user]
    first_later = round(train_share * len(messages))
    report = personalisation.personalise(
        predictor,
        messages[:first_later],
        messages[first_later:],
        learning_rate=learning_rate,
        epochs=epochs,
    )
    print(report.table())
    return report


def main(argv: Sequence[str]) -> None:
    """Personalises the model named on the command line."""
    if _TEXT.value is None:
        raise cli.UsageError("--text is needed: a file of messages, user<TAB>message.")
    run(
        pathlib.Path(cli.one_argument(argv, "a .tflite file")),
        pathlib.Path(_TEXT.value),
        user=_USER.value,
        train_share=_TRAIN_SHARE.value,
        learning_rate=_LEARNING_RATE.value,
        epochs=_EPOCHS.value,
        runtime=_RUNTIME.value,
    )


if __name__ == "__main__":
    sys.exit(cli.launch(sys.modules[__name__], sys.argv[1:]))
