"""Trains an exported model on one person's messages, as a phone would, and says what it is worth.

tff-keyboard personalise trainable.tflite --text messages.tsv --user 12

The model is a file of `tff-keyboard export --trainable`; the text has lines `user<TAB>message`,
oldest first. Without --user, the person with the most words is taken. The model trains on the first
part of the messages and predicts the rest, before and after. Nothing is written.
"""

import dataclasses
import pathlib
from typing import Annotated

from tasks.options import Range, Runtime, TaskOptions, Words


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """What the task can be told."""

    model: Annotated[pathlib.Path, Words("a .tflite file")]
    text: Annotated[pathlib.Path, "File of messages, user<TAB>message, oldest first."]
    user: Annotated[str | None, "Whose messages; whoever has the most words if left out."] = None
    train_share: Annotated[
        float, "Share of the messages, the first ones, to train on.", Range(0, 1)
    ] = 0.8
    learning_rate: Annotated[float, "Learning rate of the SGD."] = 0.05
    epochs: Annotated[int, "Passes over the messages.", Range(1)] = 1
    runtime: Runtime = None


def run(options: Options) -> None:
    """Personalises in memory and prints the change in recall.

    Raises:
      ExportError: The model cannot train, or the text has no such user or too few messages.
      CheckFailed: The model crashes the interpreter.
    """
    from tflite_export import manifest, model_trial, personalisation, texts
    from tflite_export.runtime import KeyboardPredictor

    texts.check_person(options.text, options.user)  # before TensorFlow is imported
    manifest.load_checked(options.model)
    model_trial.use_in_child(options.model, options.runtime)
    predictor = KeyboardPredictor(options.model, runtime=options.runtime)
    people = texts.from_file(options.text, predictor.vocabulary.rules)
    user = options.user or max(people, key=lambda name: sum(map(len, people[name])))
    messages = people[user]
    if options.user is None:
        print(texts.who_it_is(user, people))
    first_later = round(options.train_share * len(messages))
    report = personalisation.personalise(
        predictor,
        messages[:first_later],
        messages[first_later:],
        learning_rate=options.learning_rate,
        epochs=options.epochs,
    )
    print(report.table())
