"""Does the written file suggest what the trained model suggests?

The float Keras model and the file, in the real interpreter, read the same messages of people the
model never trained on. Both are scored by the same code; what is compared:

  agreement     share of positions with the same best word, and with the same set of three
  recall        hits at 1 and at 3 over words typed; OOV counts as missed, end of message does not
  KSS           keystroke saving rate, strip of three, selection free (`metrics.keystrokes`)
  logit error   over all rows and positions, relative to the spread of the float logits: the root
                mean square, over positions, of their standard deviation over rows
  strips        what `step` and `predict` show, against the file's own logits (`shown_words`)

One more message is the text's words one after the other, 300 of them: what goes wrong late.

Differences are file minus Keras, with a 95 % jackknife interval over people: the same people and
words on both sides, so the interval is that of the difference, far narrower than either figure's.
"""

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from tff_keyboard.data.vocabulary import PAD, Vocabulary
from tff_keyboard.evaluation.counts.positions import text_batches
from tff_keyboard.evaluation.counts.predictor_evaluation import Counter
from tff_keyboard.evaluation.counts.typed_text import TypedText
from tff_keyboard.evaluation.metrics.metric_table import METRICS, STRIP
from tff_keyboard.evaluation.statistics.sums import Sums, metric_difference, metric_value
from tff_keyboard.models import NextWordModel
from tff_keyboard.predictors.predictor import mask_special
from tff_keyboard.storage.errors import ExportError
from tflite_export.format.manifest_content import Difference, Parity
from tflite_export.gate.errors import GateUndecided, ParityFailed
from tflite_export.gate.shown_words import LENGTHS, LONG_MESSAGE, Reader, ShownReport
from tflite_export.gate.texts import LEAST_PEOPLE, LEAST_WORDS
from tflite_export.runtime.keyboard_predictor import KeyboardPredictor

MAX_MESSAGE_WORDS = 50  # longer ones are cut; the rest would repeat what their start shows
MAX_TARGETS = MAX_MESSAGE_WORDS + 1  # with the end of a message
PREDICTED_EVERY = 10  # messages; of these `predict` reads one
ENOUGH_TEXT = f"{LEAST_WORDS:,} words of {LEAST_PEOPLE} people"

# Person -> messages -> normalised words.
Texts = Mapping[str, Sequence[Sequence[str]]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tolerance:
    """What an export may lose.

    Recall alone is too blunt for a gate: a wrong row of the table moves recall by nothing in most
    texts. Agreement is sharper, and the logits show what no suggestion of this text depends on.
    """

    # Largest |difference| of recall at 1 and at 3, as a fraction. Never finer than one word of the
    # text read.
    recall: float
    agreement: float  # least share of positions with the same best word
    rms_error: float  # largest root mean square of the logit error, in spreads of the logits
    max_error: float  # largest logit error, in spreads of the logits


TOLERANCES = {
    # Bounds lie beyond what sound files reach on real models and before what faults leave;
    # docs/phone/export.md has the figures.
    "none": Tolerance(recall=0.0001, agreement=0.9999, rms_error=1e-5, max_error=1e-3),
    "float16": Tolerance(recall=0.0005, agreement=0.995, rms_error=0.001, max_error=0.02),
    "int8": Tolerance(recall=0.001, agreement=0.95, rms_error=0.05, max_error=1.0),
    "int8-rows": Tolerance(recall=0.001, agreement=0.96, rms_error=0.05, max_error=1.0),
    "int4-rows": Tolerance(recall=0.002, agreement=0.85, rms_error=0.15, max_error=2.0),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ParityReport(Parity):
    """What the comparison found, as text and as a verdict."""

    shown: ShownReport

    @property
    def relative_errors(self) -> tuple[float, float]:
        """`(rms, max)` of the logit error, in spreads of the logits."""
        spread = max(self.logit_spread, float(np.finfo(np.float32).tiny))
        return self.rms_logit_error / spread, self.max_logit_error / spread

    def table(self) -> str:
        """The report as text."""
        lines = [
            f"parity on {self.words:,} words of {self.people} people, file against float Keras",
            f"  same best word     {self.same_best:.4f}",
            f"  same best three    {self.same_three:.4f}",
        ]
        for name, metric in COMPARED.items():
            found, label = self.differences[name], METRICS[metric].label
            lines.append(
                f"  {label:18} {found.file:.4f}, difference {100 * found.value:+.3f} "
                f"+- {100 * found.half_width:.3f} points"
            )
        rms, largest = self.relative_errors
        lines.append(
            f"  logit error        {self.rms_logit_error:.4g} rms, {self.max_logit_error:.4g} max; "
            f"in spreads of the logits {rms:.3g} and {largest:.3g}"
        )
        right = self.shown.strips - self.shown.wrong_strips
        lines.append(f"  strips as computed {right:,} of {self.shown.strips:,}")
        if self.little_text:
            lines.append(f"  little text: a verdict takes {ENOUGH_TEXT}")
        return "\n".join(lines)

    def check(self, tolerance: Tolerance) -> None:
        """Raises `ParityFailed` with each loss beyond `tolerance`.

        Raises `CheckFailed` before that if the file contradicts itself.
        """
        self.shown.check()
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
        for what, error, allowed in zip(
            ("rms", "max"),
            self.relative_errors,
            (tolerance.rms_error, tolerance.max_error),
            strict=True,
        ):
            if not error <= allowed:
                failures.append(
                    f"logits are off by {error:.3g} of their spread ({what}; allowed: {allowed:g})"
                )
        if failures:
            raise ParityFailed(
                f"The exported file does not suggest what the model does: {'; '.join(failures)}. "
                "Choose another --quantize, give more text, or accept it with --allow-loss.",
                self.table(),
            )


def check_enough(texts: Texts) -> None:
    """Raises `GateUndecided` where there is too little text for a verdict."""
    if is_little(texts):
        raise GateUndecided(
            f"The gate is not decided: a verdict takes {ENOUGH_TEXT}, and there are "
            f"{_num_words(texts):,} words of {_num_people(texts)}. Give more text with --text or "
            "--store, or allow little text with --allow-little-text."
        )


def is_little(texts: Texts) -> bool:
    """Whether figures of this text would be chance."""
    return _num_words(texts) < LEAST_WORDS or _num_people(texts) < LEAST_PEOPLE


def _num_words(texts: Texts) -> int:
    return sum(len(message) for messages in texts.values() for message in messages)


def _num_people(texts: Texts) -> int:
    return sum(any(messages) for messages in texts.values())


def rows_of(words: Vocabulary, vocabulary: Vocabulary) -> np.ndarray:
    """Id in a run's vocabulary for each id of its file's: [V]."""
    place = {word: word_id for word_id, word in enumerate(vocabulary.words)}
    return np.array([place[word] for word in words.words])


def compare(
    model: NextWordModel, vocabulary: Vocabulary, predictor: KeyboardPredictor, texts: Texts
) -> ParityReport:
    """Reads every message with both models. Raises `ExportError` if there is no word in `texts`."""
    text = TypedText(
        "parity", tuple(texts), tuple([list(m) for m in p if m] for p in texts.values())
    )
    if not text.num_words:
        raise ExportError("There is no word to compare the models on. Give more text with --text.")
    words = predictor.index.vocabulary
    rows = rows_of(words, vocabulary)
    forward = tf.function(model, input_signature=[tf.TensorSpec([None, None], tf.int32)])

    def keras_logits(ids: np.ndarray) -> np.ndarray:
        """[batch, time] -> [batch, time, V], all in the file's ids; PAD is 0 in both."""
        return forward(rows[ids].astype(np.int32)).numpy()[..., rows]

    keras_counter, file_counter = (Counter(words, len(text.people)) for _ in range(2))
    reader, errors = Reader(predictor), _LogitErrors()
    agreement = np.zeros(2)
    for batch in text_batches(text, words, max_length=MAX_TARGETS):
        keras = keras_logits(batch.inputs)[batch.real]
        messages = [row[row != PAD] for row in batch.inputs]
        chains = [reader.read(message) for message in messages]
        for message, chain in list(zip(messages, chains, strict=True))[::PREDICTED_EVERY]:
            reader.read_at_once(message, chain, (len(message),))
        file = np.concatenate([chain.logits for chain in chains])
        keras_counter.add(batch, _log_softmax(keras))
        file_counter.add(batch, _log_softmax(file))
        agreement += _agreements(keras, file)
        errors.add(keras, file)
    positions = errors.positions
    before, after = keras_counter.counts().sums, file_counter.counts().sums
    ids = np.array(predictor.encode(_long_message(text)))
    chain = reader.read(ids)
    reader.read_at_once(ids, chain, LENGTHS)
    errors.add(keras_logits(ids[np.newaxis])[0], chain.logits)
    return ParityReport(
        people=len(text.people),
        words=int((before["tokens"] - before["eos_tokens"]).sum()),
        positions=positions,
        same_best=float(agreement[0] / positions),
        same_three=float(agreement[1] / positions),
        differences={name: _difference(before, after, metric) for name, metric in COMPARED.items()},
        max_logit_error=errors.largest,
        rms_logit_error=math.sqrt(errors.squares / errors.positions),
        logit_spread=math.sqrt(errors.variances / errors.positions),
        shown=reader.report,
        little_text=is_little(texts),
        forgiven=None,
    )


class _LogitErrors:
    """Sums over positions; each position's mean is over rows."""

    def __init__(self) -> None:
        self.positions = 0
        self.squares = self.variances = self.largest = 0.0

    def add(self, keras: np.ndarray, file: np.ndarray) -> None:
        """[n, V] each."""
        error = np.abs(keras - file)
        # maximum() passes NaN on; max() of Python would drop it.
        self.largest = float(np.maximum(self.largest, error.max()))
        self.squares += float(np.square(error).mean(axis=1, dtype=np.float64).sum())
        self.variances += float(keras.var(axis=1, dtype=np.float64).sum())
        self.positions += len(keras)


def _long_message(text: TypedText) -> list[str]:
    """The words of the text one after the other, again from its start where they do not reach."""
    words = [word for person in text.messages for message in person for word in message]
    return list(itertools.islice(itertools.cycle(words), LONG_MESSAGE))


# Name in the report -> metric.
COMPARED = {"recall_at_1": "recall_at_1_no_eos", "recall_at_3": "recall_at_3_no_eos", "kss": "kss"}


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
