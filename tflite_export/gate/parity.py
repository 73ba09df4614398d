"""Checks whether the written file suggests the same words as the trained model.

The float Keras model and the file, in the real interpreter, read the same messages of users that
the model was not trained on. The same code scores both. It compares:

  agreement     share of positions with the same best word, and with the same set of three
  recall        hits at 1 and at 3 over typed words; OOV counts as missed, end of message does not
                count
  KSS           keystroke saving rate, strip of three, selection free (`metrics.keystrokes`)
  logit error   over all rows and positions, relative to the spread of the float logits: the root
                mean square, over positions, of their standard deviation over rows
  strips        the strips of `step` and `predict`, against the file's own logits (`shown_words`)

One more message of 300 words, made of the text's words one after the other, finds errors that only
appear late in a message. Differences are file minus Keras, with a 95 % jackknife interval over
users. Both sides read the same users and words, so the interval of the difference is far narrower
than the interval of either figure.
"""

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from tff_keyboard.data.store.store_card import MIN_HELD_OUT_CLIENTS, MIN_HELD_OUT_WORDS
from tff_keyboard.data.vocabulary import PAD, Vocabulary
from tff_keyboard.evaluation.counts.counter import Counter
from tff_keyboard.evaluation.counts.positions import text_batches
from tff_keyboard.evaluation.counts.typed_text import TypedText
from tff_keyboard.evaluation.metrics.metric_table import METRICS, STRIP
from tff_keyboard.evaluation.statistics.sums import Sums, metric_difference, metric_value
from tff_keyboard.models import NextWordModel
from tff_keyboard.predictors.predictor import mask_special
from tff_keyboard.storage.errors import CheckFailed, ExportError
from tflite_export.format.manifest_content import Parity, ParityDifference
from tflite_export.gate.shown_words import LENGTHS, LONG_MESSAGE, Reader, ShownReport
from tflite_export.runtime.keyboard_predictor import KeyboardPredictor

MAX_MESSAGE_WORDS = 50  # longer messages are cut: more words of one message add little information
MAX_TARGETS = MAX_MESSAGE_WORDS + 1  # plus the end of the message
PREDICTED_EVERY = 10  # `predict` reads one of so many messages
ENOUGH_TEXT = f"{MIN_HELD_OUT_WORDS:,} words of {MIN_HELD_OUT_CLIENTS} clients"


class ParityFailed(CheckFailed):
    """The written file suggests other words than the model. `table` is the whole comparison."""

    def __init__(self, losses: str, table: str):
        super().__init__(
            f"{losses} Choose another --quantize, pass more text, or accept the difference with "
            "--allow-loss."
        )
        self.losses = losses
        self.table = table


class GateUndecided(CheckFailed):
    """There is too little text to decide whether the file suggests the same words as the model."""


# User -> messages -> normalised words.
Texts = Mapping[str, Sequence[Sequence[str]]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tolerance:
    """Bounds on the loss of an export.

    Recall alone is not sensitive enough for a gate: a wrong row of the table does not change recall
    in most texts. Agreement is more sensitive, and the logits show errors that change no suggestion
    in this text.
    """

    # Largest |difference| of recall at 1 and at 3, as a fraction. Never finer than one word of the
    # text read. A difference counts from the end of its interval that is nearer to zero: two words
    # that are equally likely may change places at the start of every message.
    recall: float
    agreement: float  # least share of positions with the same best word
    rms_error: float  # largest root mean square of the logit error, in spreads of the logits
    max_error: float  # largest logit error, in spreads of the logits


TOLERANCES = {
    # The bounds lie between the values of correct files of real models and the values of faulty
    # files; docs/phone/export.md has the figures.
    "none": Tolerance(recall=0.0001, agreement=0.9999, rms_error=1e-5, max_error=1e-3),
    "int8": Tolerance(recall=0.001, agreement=0.95, rms_error=0.05, max_error=1.0),
    "int8-rows": Tolerance(recall=0.001, agreement=0.96, rms_error=0.05, max_error=1.0),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ParityReport(Parity):
    """Result of the comparison, with a table and a verdict."""

    shown: ShownReport

    @property
    def relative_errors(self) -> tuple[float, float]:
        """`(rms, max)` of the logit error, in units of the spread of the logits."""
        spread = max(self.logit_spread, float(np.finfo(np.float32).tiny))
        return self.rms_logit_error / spread, self.max_logit_error / spread

    def table(self) -> str:
        """Returns the report as text."""
        lines = [
            f"parity on {self.words:,} words of {self.people} clients, file compared with float "
            "Keras (`compare` counts all held-out words, so its figures differ a little)",
            f"  same best word     {100 * self.same_best:.2f} %",
            f"  same best three    {100 * self.same_three:.2f} %",
        ]
        for name, metric in COMPARED.items():
            difference, label = self.differences[name], METRICS[metric].label
            lines.append(
                f"  {label:18} {100 * difference.file:.2f} %, difference "
                f"{100 * difference.value:+.3f} +- {100 * difference.half_width:.3f} points"
            )
        rms, largest = self.relative_errors
        lines.append(
            f"  logit error        {self.rms_logit_error:.4g} rms, {self.max_logit_error:.4g} max "
            f"({rms:.3g} and {largest:.3g} of the logits' spread)"
        )
        right = self.shown.strips - self.shown.wrong_strips
        lines.append(f"  strips as computed {right:,} of {self.shown.strips:,}")
        if self.little_text:
            lines.append(f"  little text: a verdict needs {ENOUGH_TEXT}")
        return "\n".join(lines)

    def check(self, tolerance: Tolerance) -> None:
        """Checks that no loss exceeds `tolerance`.

        Raises:
          CheckFailed: If the file contradicts itself.
          ParityFailed: If a loss exceeds `tolerance`. The message lists each of them.
        """
        self.shown.check()
        failures = []
        for name in ("recall_at_1", "recall_at_3"):
            allowed = max(tolerance.recall, 1 / self.words)
            loss, half_width = self.differences[name].value, self.differences[name].half_width
            # `not <=` is also true for NaN; 1e-9 is far less than the weight of one word.
            if not (abs(loss) <= allowed + 1e-9 or abs(loss) - half_width <= allowed):
                failures.append(
                    f"{name} differs by {100 * loss:+.3f} +- {100 * half_width:.3f} points "
                    f"(allowed: {100 * allowed:.3f})"
                )
        if not self.same_best >= tolerance.agreement:
            failures.append(
                f"the best word agrees at {100 * self.same_best:.2f} % of the positions "
                f"(required: {100 * tolerance.agreement:g} %)"
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
                "The suggestions of the exported file differ from the model: "
                f"{'; '.join(failures)}.",
                self.table(),
            )


def check_enough(texts: Texts) -> None:
    """Checks that there is enough text for a verdict.

    Raises:
      GateUndecided: If there is too little.
    """
    if is_little(texts):
        raise GateUndecided(
            f"The parity gate needs {ENOUGH_TEXT}, but there are {_num_words(texts):,} words of "
            f"{_num_clients(texts)} clients. Pass more text with --text or --store, or accept "
            "little text with --allow-little-text."
        )


def is_little(texts: Texts) -> bool:
    """Returns whether there is too little text for reliable figures."""
    return _num_words(texts) < MIN_HELD_OUT_WORDS or _num_clients(texts) < MIN_HELD_OUT_CLIENTS


def _num_words(texts: Texts) -> int:
    return sum(len(message) for messages in texts.values() for message in messages)


def _num_clients(texts: Texts) -> int:
    return sum(any(messages) for messages in texts.values())


def rows_of(words: Vocabulary, vocabulary: Vocabulary) -> np.ndarray:
    """Returns the id in a run's vocabulary for each id of its file's vocabulary: [V]."""
    ids = {word: word_id for word_id, word in enumerate(vocabulary.words)}
    return np.array([ids[word] for word in words.words])


def compare(
    model: NextWordModel, vocabulary: Vocabulary, predictor: KeyboardPredictor, texts: Texts
) -> ParityReport:
    """Reads every message with both models and compares them.

    Raises:
      ExportError: If `texts` has no words.
    """
    text = TypedText(
        "parity", tuple(texts), tuple([list(m) for m in p if m] for p in texts.values())
    )
    if not text.num_words:
        raise ExportError(
            "There are no words to compare the models on. Pass more text with --text."
        )
    words = predictor.index.vocabulary
    rows = rows_of(words, vocabulary)
    forward = tf.function(model, input_signature=[tf.TensorSpec([None, None], tf.int32)])

    def keras_logits(ids: np.ndarray) -> np.ndarray:
        """Returns logits [batch, time, V] of ids [batch, time], all in the file's ids.

        PAD is 0 in both vocabularies.
        """
        return forward(rows[ids].astype(np.int32)).numpy()[..., rows]

    keras_counter, file_counter = (Counter(words, len(text.clients)) for _ in range(2))
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
        people=len(text.clients),
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
    """Sums of logit errors over positions. Each position contributes its mean over rows."""

    def __init__(self) -> None:
        self.positions = 0
        self.squares = self.variances = self.largest = 0.0

    def add(self, keras: np.ndarray, file: np.ndarray) -> None:
        """Adds the errors of logits [n, V] of both models."""
        error = np.abs(keras - file)
        # np.maximum() propagates NaN; Python's max() would drop it.
        self.largest = float(np.maximum(self.largest, error.max()))
        self.squares += float(np.square(error).mean(axis=1, dtype=np.float64).sum())
        self.variances += float(keras.var(axis=1, dtype=np.float64).sum())
        self.positions += len(keras)


def _long_message(text: TypedText) -> list[str]:
    """Returns the first `LONG_MESSAGE` words of the text, repeated if the text has fewer."""
    words = [word for client in text.messages for message in client for word in message]
    return list(itertools.islice(itertools.cycle(words), LONG_MESSAGE))


# Name in the report -> metric.
COMPARED = {"recall_at_1": "recall_at_1_no_eos", "recall_at_3": "recall_at_3_no_eos", "kss": "kss"}


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def _agreements(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Counts positions with the same best word, and with the same three best words: [2]."""
    a, b = mask_special(a), mask_special(b)
    same_best = (a.argmax(axis=1) == b.argmax(axis=1)).sum()
    best_a = np.sort(np.argpartition(-a, STRIP - 1, axis=1)[:, :STRIP], axis=1)
    best_b = np.sort(np.argpartition(-b, STRIP - 1, axis=1)[:, :STRIP], axis=1)
    return np.array([same_best, (best_a == best_b).all(axis=1).sum()], np.float64)


def _difference(before: Sums, after: Sums, metric: str) -> ParityDifference:
    interval = metric_difference(after, before, metric)
    return ParityDifference(
        keras=metric_value(before, metric),
        file=metric_value(after, metric),
        half_width=(interval.high - interval.low) / 2,
    )
