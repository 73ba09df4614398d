"""Checks that a file shows the words it computes: `step` and `predict` against `logits`.

A keyboard shows `ids` and `probabilities` of `step` while the user types, and of `predict` if a
whole text is there at once. Recall and agreement are computed from `logits` and would not notice an
error in either. Here every strip is compared with

    the k largest of softmax(logits) over the words, with their probabilities

and `predict` with a chain of `step` from a zero state. Ties may be broken either way: an id counts
as right if its probability is right for its position. Ids are the file's.
"""

import dataclasses
from typing import NamedTuple

import numpy as np

from tff_keyboard.data.vocabulary import BOS, NUM_SPECIAL, OOV, PAD
from tff_keyboard.storage.errors import CheckFailed
from tflite_export.format import signatures
from tflite_export.format.manifest_content import Shown
from tflite_export.runtime.keyboard_predictor import KeyboardPredictor

# Differences of float32 and float64; docs/phone/export.md has the values of correct files. The
# tolerance of probabilities is relative, so that small probabilities are checked as well.
PROBABILITY_TOLERANCE = 1e-3
STATE_TOLERANCE = 1e-4

LONG_MESSAGE = 300  # words; drift and NaN appear late in a message
LENGTHS = (1, 2, 3, 10, 50, 100, 200, LONG_MESSAGE + 1)  # in tokens, of beginnings for `predict`
_OUT_OF_RANGE = (-1, -(2**31), 2**31 - 1)  # ids; the size of the vocabulary is checked as well


class Chain(NamedTuple):
    """Outputs of `step` and `logits` along a message, one row for each token."""

    ids: np.ndarray  # [time, k] int32
    probabilities: np.ndarray  # [time, k]
    logits: np.ndarray  # [time, V]
    c: np.ndarray  # [time, units]
    h: np.ndarray  # [time, dim]


@dataclasses.dataclass(frozen=True)
class ShownReport(Shown):
    """Differences between a file's strips and its logits, with a verdict."""

    def check(self) -> None:
        """Checks that all strips and states agree with the file's logits and steps.

        Rounded weights do not matter, because both sides use the same ones.

        Raises:
          CheckFailed: If any strip or state does not agree.
        """
        if self.wrong_states:
            raise CheckFailed(
                "The exported file's `predict` does not end in the state that `step` reaches word "
                f"by word ({self.wrong_states:,} messages; largest difference "
                f"{self.max_state_error:.2g}). The file is broken. Report this with the command."
            )
        if self.wrong_strips:
            raise CheckFailed(
                "The exported file shows other words than it computes: `ids` and `probabilities` "
                f"are not the best of softmax(logits) in {self.wrong_strips:,} of "
                f"{self.strips:,} strips (off by up to {self.max_probability_error:.2g} of a "
                "probability). The file is broken. Report this with the command."
            )


class Reader:
    """Reads messages with a file and counts contradictions."""

    def __init__(self, predictor: KeyboardPredictor):
        sizes = predictor.manifest.model.state_sizes
        self._zeros = tuple(np.zeros([1, size], np.float32) for size in (sizes.c, sizes.h))
        self._step = predictor.signature(signatures.STEP)
        self._logits = predictor.signature(signatures.LOGITS)
        self._predict = predictor.signature(signatures.PREDICT)
        self._strips = self._wrong_strips = self._wrong_states = 0
        self._probability_error = self._state_error = 0.0

    @property
    def report(self) -> ShownReport:
        """Counts over all messages read so far."""
        return ShownReport(
            self._strips,
            self._wrong_strips,
            self._probability_error,
            self._wrong_states,
            self._state_error,
        )

    def read(self, ids: np.ndarray) -> Chain:
        """Reads a message [time] token by token, and checks every strip."""
        c, h = self._zeros
        rows: list[tuple[np.ndarray, ...]] = []
        for word_id in ids:
            out = self.step(int(word_id), c, h)
            c, h = out["new_c"], out["new_h"]
            logits = self._logits(h=h)["logits"]
            rows.append((out["ids"][0], out["probabilities"][0], logits[0], c[0], h[0]))
        chain = Chain(*(np.stack(column) for column in zip(*rows, strict=True)))
        self._check_strips(chain.logits, chain.ids, chain.probabilities)
        return chain

    def read_at_once(self, ids: np.ndarray, chain: Chain, lengths: tuple[int, ...]) -> None:
        """Reads the first tokens of a message with `predict`, and compares with `chain`.

        Args:
          ids: The message, [time].
          chain: Result of `read` for this message.
          lengths: Numbers of tokens to read.
        """
        for length in lengths:
            out = self._predict(tokens=np.array([ids[:length]], np.int32))
            last = length - 1
            self._check_strips(chain.logits[last : last + 1], out["ids"], out["probabilities"])
            error = np.maximum(
                np.abs(out["new_c"][0] - chain.c[last]).max(),
                np.abs(out["new_h"][0] - chain.h[last]).max(),
            )
            self._state_error = float(np.maximum(self._state_error, error))
            self._wrong_states += not error <= STATE_TOLERANCE  # NaN is wrong

    def step(self, word_id: int, c: np.ndarray, h: np.ndarray) -> dict[str, np.ndarray]:
        """Runs the signature `step`."""
        return self._step(token=np.array([word_id], np.int32), c=c, h=h)

    def _check_strips(self, logits: np.ndarray, ids: np.ndarray, probabilities: np.ndarray) -> None:
        """Compares strips with logits [n, V]; `ids` and `probabilities` are [n, k]."""
        wrong, error = compare_strips(logits, ids, probabilities)
        self._strips += len(ids)
        self._wrong_strips += int(wrong.sum())
        self._probability_error = float(np.maximum(self._probability_error, error))


def compare_strips(
    logits: np.ndarray, ids: np.ndarray, probabilities: np.ndarray
) -> tuple[np.ndarray, float]:
    """Compares strips with logits.

    Args:
      logits: [n, V].
      ids: [n, k], the words of the strips.
      probabilities: [n, k].

    Returns:
      `(wrong, error)`. `wrong` [n] bool is true if the strip does not show the best words of its
      logits. `error` is the largest relative difference of a probability.
    """
    is_word = (ids >= NUM_SPECIAL) & (ids < logits.shape[1])
    strip_logits = np.take_along_axis(logits, np.where(is_word, ids, 0), axis=1)  # [n, k]
    largest = logits.max(axis=1, keepdims=True)
    total = np.exp(logits - largest).sum(axis=1, dtype=np.float64, keepdims=True)
    expected = np.exp((strip_logits - largest).astype(np.float64)) / total
    error = np.abs(probabilities - expected) / np.maximum(expected, np.finfo(np.float32).tiny)
    # At most j words have larger logits than the word at position j.
    better = [
        (logits[:, NUM_SPECIAL:] > strip_logits[:, [j]] + PROBABILITY_TOLERANCE).sum(axis=1) <= j
        for j in range(ids.shape[1])
    ]
    repeated = (np.diff(np.sort(ids, axis=1), axis=1) == 0).any(axis=1)
    near = (error <= PROBABILITY_TOLERANCE).all(axis=1)  # NaN is not near
    right = is_word.all(axis=1) & ~repeated & near & np.all(better, axis=0)
    return ~right, float(error.max(initial=0.0))


def check_made_up(predictor: KeyboardPredictor) -> ShownReport:
    """Reads random words and odd tokens, and checks the strips. It needs no text.

    The words are drawn from the whole vocabulary.

    Raises:
      CheckFailed: If the file contradicts itself.
    """
    size = len(predictor.index.vocabulary)
    reader = Reader(predictor)
    ids = np.random.default_rng(0).integers(OOV, size, LONG_MESSAGE + 1)
    ids[0] = BOS
    chain = reader.read(ids)
    reader.read_at_once(ids, chain, LENGTHS)
    reader.report.check()
    _check_odd_tokens(reader, chain, size)
    return reader.report


def _check_odd_tokens(reader: Reader, chain: Chain, size: int) -> None:
    """Checks that PAD leaves the state unchanged, and that an id without a row is read as OOV."""
    c, h = chain.c[-1:], chain.h[-1:]
    unknown = reader.step(OOV, c, h)
    for token, expected in (
        (PAD, {"new_c": c, "new_h": h}),
        *((outside, unknown) for outside in (*_OUT_OF_RANGE, size)),
    ):
        out = reader.step(token, c, h)
        if any(not np.array_equal(out[name], expected[name]) for name in ("new_c", "new_h")):
            raise CheckFailed(
                f"The exported file reads the token {token} wrongly: PAD must leave the state "
                "alone, and an id that is no row of the table counts as OOV. The file is broken; "
                "report this with the command."
            )
