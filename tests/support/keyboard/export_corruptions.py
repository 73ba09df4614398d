"""What can be wrong with a written file: each breaks the writer, the file is then checked as usual.

The gate must catch each (docs/phone/export.md).
"""

import contextlib
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from tff_keyboard.data.vocabulary import EOS, NUM_SPECIAL
from tflite_export.graphs import row_scaled
from tflite_export.graphs.quantization import quantize_rows

Corruption = Callable[[pytest.MonkeyPatch], None]
_Cifg = row_scaled._Cifg


def strips_without_offset(patch: pytest.MonkeyPatch) -> None:
    """`ids` count from the first word, not from the first row."""

    def best_words(self, graph, h):
        probabilities = graph.softmax(self.logits(graph, h), [1, self.vocabulary])
        words = self.vocabulary - NUM_SPECIAL
        values, rows = graph.top_k(
            graph.slice(probabilities, [0, NUM_SPECIAL], [1, words]), self.top_k
        )
        return rows, values

    patch.setattr(_Cifg, "best_words", best_words)


def worst_words(patch: pytest.MonkeyPatch) -> None:
    """The words that fit least."""

    def best_words(self, graph, h):
        minus = graph.constant(np.array([[-1.0]], np.float32))
        negative = graph.multiply(self.logits(graph, h), minus, [1, self.vocabulary])
        probabilities = graph.softmax(negative, [1, self.vocabulary])
        words = self.vocabulary - NUM_SPECIAL
        values, rows = graph.top_k(
            graph.slice(probabilities, [0, NUM_SPECIAL], [1, words]), self.top_k
        )
        offset = graph.integers(NUM_SPECIAL)
        return graph.add(rows, offset, [1, self.top_k], row_scaled.Type.INT32), values

    patch.setattr(_Cifg, "best_words", best_words)


def probabilities_over_words_only(patch: pytest.MonkeyPatch) -> None:
    """Softmax without the special rows: right words, wrong probabilities."""

    def best_words(self, graph, h):
        words = self.vocabulary - NUM_SPECIAL
        of_words = graph.slice(self.logits(graph, h), [0, NUM_SPECIAL], [1, words])
        values, rows = graph.top_k(graph.softmax(of_words, [1, words]), self.top_k)
        offset = graph.integers(NUM_SPECIAL)
        return graph.add(rows, offset, [1, self.top_k], row_scaled.Type.INT32), values

    patch.setattr(_Cifg, "best_words", best_words)


def predict_forgets(patch: pytest.MonkeyPatch) -> None:
    """`predict` reads its last word as if it were the first."""
    build = row_scaled._build_predict

    def forgetting(builder, cifg):
        real = cifg.read_token

        def read_token(graph, token, c, h):
            return real(graph, token, graph.zeros([1, cifg.units]), graph.zeros([1, cifg.dim]))

        cifg.read_token = read_token
        try:
            build(builder, cifg)
        finally:
            del cifg.read_token

    patch.setattr(row_scaled, "_build_predict", forgetting)


def pad_is_read(patch: pytest.MonkeyPatch) -> None:
    """PAD moves the state."""

    def read_token(self, graph, token, c, h):
        return self._cell(graph, self._embed(graph, self.known_id(graph, token)), c, h)

    patch.setattr(_Cifg, "read_token", read_token)


def temperature(factor: float) -> Corruption:
    """All logits times `factor`: every strip is right, every probability wrong."""
    sound = _Cifg.logits

    def corrupt(patch: pytest.MonkeyPatch) -> None:
        def logits(self, graph, h):
            by = graph.constant(np.array([[factor]], np.float32))
            return graph.multiply(sound(self, graph, h), by, [1, self.vocabulary])

        patch.setattr(_Cifg, "logits", logits)

    return corrupt


def table(edit: Callable[[np.ndarray], None]) -> Corruption:
    """Another table than was trained is written. Rows are those of the file."""

    def corrupt(patch: pytest.MonkeyPatch) -> None:
        sound = row_scaled.build

        def build(weights, _, *, top_k):
            rows = weights.embedding.copy()
            edit(rows)
            return sound(weights, quantize_rows(rows), top_k=top_k)

        patch.setattr(row_scaled, "build", build)

    return corrupt


def eos_zero(rows: np.ndarray) -> None:
    rows[EOS] = 0.0


def swapped(first: int, second: int) -> Callable[[np.ndarray], None]:
    """Two rows changed places."""

    def edit(rows: np.ndarray) -> None:
        rows[[first, second]] = rows[[second, first]]

    return edit


def zero_from(start: int) -> Callable[[np.ndarray], None]:
    """Rows from `start` on are zero."""

    def edit(rows: np.ndarray) -> None:
        rows[start:] = 0.0

    return edit


def shuffled_from(start: int) -> Callable[[np.ndarray], None]:
    """Rows from `start` on in another order."""

    def edit(rows: np.ndarray) -> None:
        rows[start:] = np.random.default_rng(0).permutation(rows[start:])

    return edit


def of_size(vocabulary: int) -> dict[str, tuple[Corruption, str]]:
    """Name -> corruption and what its error says, for a file of so many rows."""
    tenth = vocabulary // 10
    broken_table = "rows of the word table"
    return {
        "ids without offset": (strips_without_offset, "other words than it computes"),
        "worst words": (worst_words, "other words than it computes"),
        "softmax of words only": (probabilities_over_words_only, "other words than it computes"),
        "predict forgets": (predict_forgets, "`predict` does not end in the state"),
        "PAD is read": (pad_is_read, "reads the token 0 wrongly"),
        "logits x 0.25": (temperature(0.25), "logits are off by"),
        "logits x 4": (temperature(4.0), "logits are off by"),
        "EOS row zero": (table(eos_zero), f"1 of the .* {broken_table}"),
        "two rows swapped": (table(swapped(tenth, vocabulary - 1)), f"2 of the .* {broken_table}"),
        "neighbours swapped": (table(swapped(tenth, tenth + 1)), f"2 of the .* {broken_table}"),
        "last row zero": (table(zero_from(vocabulary - 1)), f"1 of the .* {broken_table}"),
        "rows zero": (table(zero_from(2 * tenth)), broken_table),
        "rows shuffled": (table(shuffled_from(3 * tenth)), broken_table),
    }


@contextlib.contextmanager
def broken_writer(corruption: Corruption) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        corruption(patch)
        yield
