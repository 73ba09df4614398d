"""Does the written file suggest what the trained model suggests? The gate of every export.

The float Keras model and the file, in the real interpreter, read the same messages of people the
model never trained on. Both are scored by the same code; what is compared:

  agreement     share of positions with the same best word, and with the same set of three
  recall        hits at 1 and at 3 over words typed; OOV counts as missed, end of message does not
  KSS           keystroke saving rate, strip of three, selection free (`metrics.keystrokes`)
  logit error   over all rows and positions

Differences are file minus Keras, with a 95 % jackknife interval over people: the same people and
words on both sides, so the interval is that of the difference, far narrower than either figure's.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from tff_keyboard.data.vocabulary import BOS, EOS, NUM_SPECIAL, PAD, Vocabulary, is_mask
from tff_keyboard.metrics.jackknife import Interval, ratio_interval
from tff_keyboard.metrics.keystrokes import characters_typed
from tff_keyboard.metrics.predictor import mask_special
from tff_keyboard.metrics.prefix_index import PrefixIndex
from tff_keyboard.metrics.target_ranks import target_ranks
from tff_keyboard.models import NextWordModel
from tff_keyboard.storage.errors import ExportError
from tflite_export.errors import ParityFailed
from tflite_export.runtime import KeyboardPredictor

STRIP = 3
MAX_MESSAGE_WORDS = 50  # longer ones are cut; the rest would repeat what their start shows

# Person -> messages -> normalised words.
Texts = Mapping[str, Sequence[Sequence[str]]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tolerance:
    """What an export may lose.

    Recall alone is too blunt for a gate: a wrong row of the table moves recall by nothing in most
    texts. Agreement is sharp, so both must hold.

    Attributes:
      recall: Largest |difference| of recall at 1 and at 3, as a fraction. Never finer than one
        word of the text read.
      agreement: Least share of positions with the same best word.
    """

    recall: float
    agreement: float


TOLERANCES = {
    # Agreement floors lie below what sound files reach on SMS and above what the faults in
    # tests/tflite_export/test_export_parity.py leave; docs/export.md has the figures.
    "none": Tolerance(recall=0.0001, agreement=0.9999),
    "float16": Tolerance(recall=0.0005, agreement=0.995),
    "int8": Tolerance(recall=0.001, agreement=0.95),
    "int8-rows": Tolerance(recall=0.001, agreement=0.96),
    "int4-rows": Tolerance(recall=0.002, agreement=0.85),
}


@dataclasses.dataclass(frozen=True)
class Difference:
    """A paired difference: value and 95 % interval over people, as fractions."""

    keras: float
    file: float
    half_width: float  # nan with one person

    @property
    def value(self) -> float:
        return self.file - self.keras


@dataclasses.dataclass(frozen=True)
class ParityReport:
    """What the comparison found.

    Attributes:
      people: Whose text was read.
      words: Words typed, OOV included.
      positions: Predictions compared, end of message included.
      same_best: Share of positions with the same best word.
      same_three: Share of positions with the same set of three best words.
      differences: "recall_at_1", "recall_at_3", "kss" -> difference.
      max_logit_error: Largest over positions and rows.
      rms_logit_error: Root mean square over both.
    """

    people: int
    words: int
    positions: int
    same_best: float
    same_three: float
    differences: dict[str, Difference]
    max_logit_error: float
    rms_logit_error: float

    def table(self) -> str:
        """The report as text."""
        lines = [
            f"parity on {self.words:,} words of {self.people} people, file against float Keras",
            f"  same best word     {self.same_best:.4f}",
            f"  same best three    {self.same_three:.4f}",
        ]
        for name, label in (
            ("recall_at_1", "top-1 recall"),
            ("recall_at_3", "top-3 recall"),
            ("kss", "keystrokes saved"),
        ):
            found = self.differences[name]
            lines.append(
                f"  {label:18} {found.file:.4f}, difference {100 * found.value:+.3f} "
                f"+- {100 * found.half_width:.3f} points"
            )
        lines.append(
            f"  logit error        {self.rms_logit_error:.4g} rms, {self.max_logit_error:.4g} max"
        )
        return "\n".join(lines)

    def check(self, tolerance: Tolerance) -> None:
        """Raises unless the loss is within `tolerance`.

        Raises:
          ParityFailed: Says which figure failed, and what it should be.
        """
        failures = []
        for name in ("recall_at_1", "recall_at_3"):
            allowed = max(tolerance.recall, 1 / self.words)
            found = self.differences[name].value
            # `not <=` fails on NaN too; 1e-9 is far below a word.
            if not abs(found) <= allowed + 1e-9:
                failures.append(
                    f"{name} differs by {100 * found:+.3f} points (allowed: {100 * allowed:.3f})"
                )
        if not self.same_best >= tolerance.agreement:
            failures.append(
                f"the best word agrees at {self.same_best:.4f} of the positions "
                f"(required: {tolerance.agreement})"
            )
        if not math.isfinite(self.max_logit_error):
            failures.append("logits are not finite")
        if failures:
            raise ParityFailed(
                f"The exported file does not suggest what the model does: {'; '.join(failures)}. "
                "Choose another --quantize, give more text, or accept it with --allow-loss.",
                self.table(),
            )


def compare(
    model: NextWordModel, vocabulary: Vocabulary, predictor: KeyboardPredictor, texts: Texts
) -> ParityReport:
    """Reads every message with both models.

    Args:
      model: The float model.
      vocabulary: Its vocabulary.
      predictor: The file, opened with that vocabulary.
      texts: What people typed.

    Raises:
      ExportError: There is no word in `texts`.
    """
    scorer = _Scorer(vocabulary)
    keras_logits = tf.function(model, input_signature=[tf.TensorSpec([None, None], tf.int32)])
    keras_sums, file_sums = [], []
    agreement = np.zeros(2)
    positions = 0
    squared_error, max_error = 0.0, 0.0
    for messages in texts.values():
        keras_person, file_person = np.zeros(len(_SUMS)), np.zeros(len(_SUMS))
        for words, inputs, targets in _messages(vocabulary, messages):
            keras = keras_logits(inputs[np.newaxis]).numpy()[0]
            file = predictor.logits(inputs)
            keras_person += scorer.sums(keras, targets, words)
            file_person += scorer.sums(file, targets, words)
            agreement += _agreements(keras, file)
            positions += len(targets)
            error = np.abs(keras - file)
            # maximum() passes NaN on; max() of Python would drop it.
            max_error = float(np.maximum(max_error, error.max()))
            squared_error += float(np.square(error).mean(axis=1, dtype=np.float64).sum())
        keras_sums.append(keras_person)
        file_sums.append(file_person)
    before, after = np.array(keras_sums), np.array(file_sums)  # [people, sums]
    if not len(before) or not before[:, _SUMS.index("words")].sum():
        raise ExportError("There is no word to compare the models on. Give more text with --text.")
    return ParityReport(
        people=len(before),
        words=int(before[:, _SUMS.index("words")].sum()),
        positions=positions,
        same_best=float(agreement[0] / positions),
        same_three=float(agreement[1] / positions),
        differences={
            name: _difference(before, after, numerator, denominator)
            for name, (numerator, denominator) in _RATIOS.items()
        },
        max_logit_error=max_error,
        rms_logit_error=math.sqrt(squared_error / positions),
    )


# Sums of a person, and the ratios of such sums.
_SUMS = ("words", "hits_at_1", "hits_at_3", "characters", "saved")
_RATIOS = {
    "recall_at_1": ("hits_at_1", "words"),
    "recall_at_3": ("hits_at_3", "words"),
    "kss": ("saved", "characters"),
}


class _Scorer:
    """Counts of one message under one model's scores."""

    def __init__(self, vocabulary: Vocabulary):
        self._index = PrefixIndex(vocabulary)

    def sums(self, scores: np.ndarray, targets: np.ndarray, words: Sequence[str]) -> np.ndarray:
        """[len(_SUMS)]; `scores` [time, V], `targets` [time] = word ids and EOS."""
        known = np.flatnonzero(targets >= NUM_SPECIAL)
        ranks = target_ranks(scores[known], targets[known]).words
        typed = characters_typed(
            scores[known], targets[known], self._index, k=STRIP, word_ranks=ranks
        )
        saved = (self._index.word_lengths[targets[known]] - typed).sum()
        characters = sum(len(word) for word in words if not is_mask(word))
        return np.array(
            [len(words), (ranks < 1).sum(), (ranks < STRIP).sum(), characters, saved], np.float64
        )


def _messages(
    vocabulary: Vocabulary, messages: Sequence[Sequence[str]]
) -> Iterator[tuple[list[str], np.ndarray, np.ndarray]]:
    """`(words, inputs [time], targets [time])` of each message that has a word."""
    for message in messages:
        words = list(message[:MAX_MESSAGE_WORDS])
        if words:
            ids = np.array([BOS, *vocabulary.encode(words), EOS], np.int32)
            assert PAD not in ids
            yield words, ids[:-1], ids[1:]


def _agreements(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Positions where the best word is the same, and where the three best are: [2]."""
    a, b = mask_special(a), mask_special(b)
    same_best = (a.argmax(axis=1) == b.argmax(axis=1)).sum()
    best_a = np.sort(np.argpartition(-a, STRIP - 1, axis=1)[:, :STRIP], axis=1)
    best_b = np.sort(np.argpartition(-b, STRIP - 1, axis=1)[:, :STRIP], axis=1)
    return np.array([same_best, (best_a == best_b).all(axis=1).sum()], np.float64)


def _difference(
    before: np.ndarray, after: np.ndarray, numerator: str, denominator: str
) -> Difference:
    """Ratio of sums over people, after minus before, with the jackknife over people."""
    above, below = _SUMS.index(numerator), _SUMS.index(denominator)
    weights = before[:, below]
    total = weights.sum()
    keras, file = before[:, above].sum() / total, after[:, above].sum() / total
    return Difference(
        keras=float(keras),
        file=float(file),
        # Words are the same on both sides, so the difference is itself a ratio.
        half_width=half_width(ratio_interval(after[:, above] - before[:, above], weights)),
    )


def half_width(interval: Interval) -> float:
    """Half the width of an interval; nan with one person."""
    return (interval.high - interval.low) / 2
