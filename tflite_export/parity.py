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
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from tff_keyboard.data.vocabulary import PAD, Vocabulary
from tff_keyboard.evaluation.metric_table import STRIP
from tff_keyboard.evaluation.positions import text_batches
from tff_keyboard.evaluation.predictor_evaluation import Counter
from tff_keyboard.evaluation.sums import Sums, metric_difference, metric_value
from tff_keyboard.evaluation.typed_text import TypedText
from tff_keyboard.metrics.predictor import mask_special
from tff_keyboard.models import NextWordModel
from tff_keyboard.storage.errors import ExportError
from tflite_export.errors import ParityFailed
from tflite_export.runtime import KeyboardPredictor

MAX_MESSAGE_WORDS = 50  # longer ones are cut; the rest would repeat what their start shows
MAX_TARGETS = MAX_MESSAGE_WORDS + 1  # with the end of a message

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
    text = TypedText(
        "parity", tuple(texts), tuple([list(m) for m in p if m] for p in texts.values())
    )
    if not text.num_words:
        raise ExportError("There is no word to compare the models on. Give more text with --text.")
    keras_logits = tf.function(model, input_signature=[tf.TensorSpec([None, None], tf.int32)])
    keras_counter, file_counter = (Counter(vocabulary, len(text.people)) for _ in range(2))
    agreement = np.zeros(2)
    positions = 0
    squared_error, max_error = 0.0, 0.0
    for batch in text_batches(text, vocabulary, max_length=MAX_TARGETS):
        keras = keras_logits(batch.inputs).numpy()[batch.real]
        file = np.concatenate([predictor.logits(row[row != PAD]) for row in batch.inputs])
        keras_counter.add(batch, _log_softmax(keras))
        file_counter.add(batch, _log_softmax(file))
        agreement += _agreements(keras, file)
        positions += len(keras)
        error = np.abs(keras - file)
        # maximum() passes NaN on; max() of Python would drop it.
        max_error = float(np.maximum(max_error, error.max()))
        squared_error += float(np.square(error).mean(axis=1, dtype=np.float64).sum())
    before, after = keras_counter.counts().sums, file_counter.counts().sums
    return ParityReport(
        people=len(text.people),
        words=int((before["tokens"] - before["eos_tokens"]).sum()),
        positions=positions,
        same_best=float(agreement[0] / positions),
        same_three=float(agreement[1] / positions),
        differences={name: _difference(before, after, metric) for name, metric in COMPARED.items()},
        max_logit_error=max_error,
        rms_logit_error=math.sqrt(squared_error / positions),
    )


# Name in the report -> metric.
COMPARED = {
    "recall_at_1": "recall_at_1_no_eos",
    "recall_at_3": "recall_at_3_no_eos",
    "kss": "kss",
}


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def _agreements(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Positions where the best word is the same, and where the three best are: [2]."""
    a, b = mask_special(a), mask_special(b)
    same_best = (a.argmax(axis=1) == b.argmax(axis=1)).sum()
    best_a = np.sort(np.argpartition(-a, STRIP - 1, axis=1)[:, :STRIP], axis=1)
    best_b = np.sort(np.argpartition(-b, STRIP - 1, axis=1)[:, :STRIP], axis=1)
    return np.array([same_best, (best_a == best_b).all(axis=1).sum()], np.float64)


def _difference(before: Sums, after: Sums, metric: str) -> Difference:
    interval = metric_difference(after, before, metric)
    return Difference(
        keras=metric_value(before, metric),
        file=metric_value(after, metric),
        half_width=(interval.high - interval.low) / 2,
    )
