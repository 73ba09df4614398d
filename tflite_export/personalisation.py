"""On-device training of an exported model on one person's messages.

The phone's half of federated training, kept on the phone: plain SGD, a message a step, in the
order typed. What it is worth is measured on messages the person typed later.
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from tff_keyboard.data.vocabulary import EOS
from tff_keyboard.evaluation import predictor_evaluation
from tff_keyboard.evaluation.sums import metric_difference, metric_value
from tff_keyboard.evaluation.typed_text import TypedText
from tff_keyboard.metrics.jackknife import Interval
from tff_keyboard.storage.errors import ExportError
from tflite_export import signatures
from tflite_export.runtime import KeyboardPredictor

MAX_TARGETS = 20  # of one step, as `data.max_length` of training

_RECALL = {1: "recall_at_1_no_eos", 3: "recall_at_3_no_eos"}

Messages = Sequence[Sequence[str]]


@dataclasses.dataclass(frozen=True)
class PersonalisationReport:
    """Recall on later messages, before and after training; fractions of the words typed.

    Attributes:
      train_messages: Messages trained on.
      train_losses: Mean loss of each epoch, in nats a word.
      words: Later words, OOV included.
      before: k -> recall at k of the file as it came.
      after: The same, once trained.
      differences: k -> after minus before, with its 95 % jackknife interval over later messages.
    """

    train_messages: int
    train_losses: list[float]
    words: int
    before: dict[int, float]
    after: dict[int, float]
    differences: dict[int, Interval]

    def table(self) -> str:
        """The report as text."""
        losses = ", ".join(f"{loss:.3f}" for loss in self.train_losses)
        lines = [
            f"trained on {self.train_messages} messages; loss by epoch: {losses}",
            f"recall on the {self.words:,} words typed later:",
        ]
        lines += [
            f"  top-{k}  {self.before[k]:.4f} -> {self.after[k]:.4f}  "
            f"({100 * change.value:+.2f} points, from {100 * change.low:+.2f} to "
            f"{100 * change.high:+.2f})"
            for k, change in self.differences.items()
        ]
        return "\n".join(lines)


def train_message(
    predictor: KeyboardPredictor, words: Sequence[str], learning_rate: float
) -> float:
    """One step of SGD on one message; returns its mean loss before the step, in nats a target.

    Raises:
      ExportError: The file cannot train, or the step diverged; a diverged model is of no more use.
    """
    ids = [*predictor.encode(words), EOS][: MAX_TARGETS + 1]
    train = predictor.signature(signatures.TRAIN)
    out = train(tokens=np.array([ids], np.int32), learning_rate=np.array(learning_rate, np.float32))
    predictor.reset()
    loss = float(out["loss"])
    if not math.isfinite(loss):
        raise ExportError(
            f"Training diverged with `learning_rate` = {learning_rate}. Choose a smaller one."
        )
    return loss


def personalise(
    predictor: KeyboardPredictor,
    train: Messages,
    later: Messages,
    *,
    learning_rate: float,
    epochs: int,
) -> PersonalisationReport:
    """Trains on `train` and measures recall on `later` before and after.

    Args:
      predictor: A trainable file; trained in place, in memory.
      train: Messages to learn from, as normalised words, oldest first.
      later: Messages typed after those.
      learning_rate: Of SGD; > 0.
      epochs: Passes over `train`; >= 1.

    Raises:
      ExportError: The file cannot train, an argument is out of range, or there is nothing to train
        on or to measure with.
    """
    if not learning_rate > 0 or not math.isfinite(learning_rate):
        raise ExportError(f"`learning_rate` must be > 0, got {learning_rate}.")
    if epochs < 1:
        raise ExportError(f"`epochs` must be >= 1, got {epochs}.")
    train = [message for message in train if message]
    later = [message for message in later if message]
    if not train or not later:
        raise ExportError(
            f"There are {len(train)} messages to train on and {len(later)} later ones; one of each "
            "is needed. Choose a person who typed more."
        )
    # Each later message counts as a person: the intervals are over messages.
    text = TypedText("later", tuple(map(str, range(len(later)))), tuple([list(m)] for m in later))
    before = predictor_evaluation.evaluate(predictor, text).sums
    losses = [
        float(np.mean([train_message(predictor, words, learning_rate) for words in train]))
        for _ in range(epochs)
    ]
    after = predictor_evaluation.evaluate(predictor, text).sums
    return PersonalisationReport(
        train_messages=len(train),
        train_losses=losses,
        words=text.num_words,
        before={k: metric_value(before, metric) for k, metric in _RECALL.items()},
        after={k: metric_value(after, metric) for k, metric in _RECALL.items()},
        differences={k: metric_difference(after, before, m) for k, m in _RECALL.items()},
    )
