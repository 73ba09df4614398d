"""On-device training of an exported model on one user's messages.

It is the phone's half of federated training, and nothing leaves the phone: plain SGD, one message a
step, in the order typed. Its benefit is measured on messages that the user typed later. Messages in
between decide whether the result is kept.
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from tff_keyboard.evaluation.counts import predictor_evaluation
from tff_keyboard.evaluation.counts.typed_text import TypedText
from tff_keyboard.evaluation.statistics.jackknife import Interval
from tff_keyboard.evaluation.statistics.sums import metric_difference, metric_value
from tff_keyboard.predictors.predictor import Predictor
from tff_keyboard.storage.errors import ExportError
from tflite_export.runtime.keyboard_predictor import KeyboardPredictor
from tflite_export.runtime.training_step import MAX_TARGETS, train_message

_RECALL = {1: "recall_at_1_no_eos", 3: "recall_at_3_no_eos"}

MIN_MESSAGES = 5  # of a user who takes part, so that no part is empty

Messages = Sequence[Sequence[str]]
PersonSums = dict[str, float]  # every name of `HOST_SUMS`


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of training and evaluation for each user.

    Raises:
      ExportError: If a setting is out of range.
    """

    train_share: float = 0.6  # share of a user's messages, the first ones, to train on; in (0, 1)
    validation_share: float = 0.2  # share after them, to decide by; in (0, 1 - train_share)
    learning_rate: float = 0.05  # learning rate of SGD, one message a step; > 0
    epochs: int = 1  # passes over the training part; >= 1
    max_messages: int = 400  # maximum of a user's latest messages; >= `MIN_MESSAGES`

    def __post_init__(self) -> None:
        if (
            not (0 < self.train_share < 1 and 0 < self.validation_share < 1)
            or self.train_share + self.validation_share >= 1 - 1e-9
        ):
            raise ExportError(
                "`train_share` and `validation_share` must be in (0, 1) and leave messages for "
                f"the evaluation, got {self.train_share} and {self.validation_share}."
            )
        if not 0 < self.learning_rate < math.inf:
            raise ExportError(f"`learning_rate` must be > 0, got {self.learning_rate}.")
        if self.epochs < 1:
            raise ExportError(f"`epochs` must be >= 1, got {self.epochs}.")
        if self.max_messages < MIN_MESSAGES:
            raise ExportError(f"`max_messages` must be >= {MIN_MESSAGES}, got {self.max_messages}.")

    def parts(self, messages: Messages) -> tuple[Messages, Messages, Messages]:
        """Splits messages into three parts: to train on, to decide by, to measure with.

        None is empty.
        """
        messages = messages[-self.max_messages :]
        first = max(1, round(self.train_share * len(messages)))
        second = max(first + 1, round((self.train_share + self.validation_share) * len(messages)))
        second = min(second, len(messages) - 1)
        return messages[:first], messages[first:second], messages[second:]


@dataclasses.dataclass(frozen=True)
class PersonalisationReport:
    """Recall on later messages before and after training, as fractions of the typed words."""

    train_messages: int
    train_losses: list[float]  # mean loss of each epoch, in nats a word
    # Losses on the messages that decide, before and after, in nats a target
    deciding_losses: tuple[float, float]
    words: int  # later words, OOV included
    before: dict[int, float]  # k -> recall at k before training
    after: dict[int, float]  # k -> recall at k after training
    # k -> after minus before, with its 95 % jackknife interval over later messages
    differences: dict[int, Interval]

    def table(self) -> str:
        """Returns the report as text."""
        was, now = self.deciding_losses
        losses = ", ".join(f"{loss:.3f}" for loss in self.train_losses)
        return "\n".join(
            [
                f"recall on the last {self.words:,} words, in percent:",
                *(
                    f"  top-{k}  {100 * self.before[k]:.2f} -> {100 * self.after[k]:.2f}  "
                    f"({100 * change.value:+.2f} points, from {100 * change.low:+.2f} to "
                    f"{100 * change.high:+.2f})"
                    for k, change in self.differences.items()
                ),
                f"a phone would {'keep' if now < was else 'discard'} the trained weights: loss on "
                f"the validation messages {was:.3f} -> {now:.3f}",
                f"trained on the first {self.train_messages} messages; loss by epoch: {losses}",
            ]
        )


def sums_of_person(
    predictor: Predictor, messages: Messages, before: Sequence[list[str]] = ()
) -> PersonSums:
    """Returns the counts of one user's messages after the messages `before`.

    Each message is cut as in training.
    """
    text = TypedText(
        "one person", ("",), ([list(words) for words in messages],), before=(list(before),)
    )
    sums = predictor_evaluation.evaluate(predictor, text, max_length=MAX_TARGETS).sums
    return {name: float(values[0]) for name, values in sums.items()}


def mean_loss(predictor: Predictor, messages: Messages) -> float:
    """Returns the mean loss over the targets of the messages, in nats."""
    sums = sums_of_person(predictor, messages)
    return sums["nll"] / sums["tokens"]


def personalise(
    predictor: KeyboardPredictor, messages: Messages, settings: Settings
) -> PersonalisationReport:
    """Trains on one user's first messages, and measures recall on the last ones before and after.

    The model is trained in place, in memory. Messages consist of normalised words, oldest first.

    Raises:
      ExportError: If the file cannot train, the training diverged, or there are too few messages.
    """
    messages = [message for message in messages if message]
    if len(messages) < MIN_MESSAGES:
        raise ExportError(
            f"The user has {len(messages)} messages, but {MIN_MESSAGES} are required. Choose a "
            "user with more messages."
        )
    train, middle, later = settings.parts(messages)
    # Each later message counts as a user, so that the intervals are over messages.
    text = TypedText("later", tuple(map(str, range(len(later)))), tuple([list(m)] for m in later))
    before = predictor_evaluation.evaluate(predictor, text).sums
    loss_before = mean_loss(predictor, middle)
    losses = [
        float(np.mean([train_message(predictor, words, settings.learning_rate) for words in train]))
        for _ in range(settings.epochs)
    ]
    after = predictor_evaluation.evaluate(predictor, text).sums
    return PersonalisationReport(
        train_messages=len(train),
        train_losses=losses,
        deciding_losses=(loss_before, mean_loss(predictor, middle)),
        words=text.num_words,
        before={k: metric_value(before, metric) for k, metric in _RECALL.items()},
        after={k: metric_value(after, metric) for k, metric in _RECALL.items()},
        differences={k: metric_difference(after, before, m) for k, m in _RECALL.items()},
    )
