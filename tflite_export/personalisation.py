"""On-device training of an exported model on one person's messages.

The phone's half of federated training, kept on the phone: plain SGD, a message a step, in the
order typed. What it is worth is measured on messages the person typed later.
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from tff_keyboard.data.vocabulary import EOS, NUM_SPECIAL
from tff_keyboard.metrics.jackknife import Interval, ratio_interval
from tff_keyboard.storage.errors import ExportError
from tflite_export import signatures
from tflite_export.runtime import KeyboardPredictor

MAX_TARGETS = 20  # of one step, as `data.max_length` of training
STRIP = 3

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
    before = _hits(predictor, later)
    losses = [
        float(np.mean([train_message(predictor, words, learning_rate) for words in train]))
        for _ in range(epochs)
    ]
    after = _hits(predictor, later)
    words = np.array([len(message) for message in later], np.float64)
    return PersonalisationReport(
        train_messages=len(train),
        train_losses=losses,
        words=int(words.sum()),
        before={k: float(before[k].sum() / words.sum()) for k in before},
        after={k: float(after[k].sum() / words.sum()) for k in after},
        differences={k: ratio_interval(after[k] - before[k], words) for k in before},
    )


def _hits(predictor: KeyboardPredictor, messages: Messages) -> dict[int, np.ndarray]:
    """Words of each message that were the first of the strip, and on it: [messages] each."""
    firsts, on_strip = np.zeros(len(messages)), np.zeros(len(messages))
    for row, message in enumerate(messages):
        for place, word in enumerate(message):
            if predictor.vocabulary.id_of(word) < NUM_SPECIAL:
                continue  # OOV: typed, never suggested
            strip = [suggested for suggested, _ in predictor.suggest(message[:place], "", STRIP)]
            firsts[row] += strip[0] == word
            on_strip[row] += word in strip
    return {1: firsts, STRIP: on_strip}
