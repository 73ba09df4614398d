"""An n-gram with its words in one small file.

    line 1    the format's name
    line 2    JSON: the fields of `_Header`
    then      parts, each deflated
                0         one byte per unigram (V of them), then the words, each with a line feed
                n - 1     order n >= 2: children | words | probabilities
    last 32   SHA-256 of everything before

Children: a bit for each row of the previous order (each id, for order 2) that is 1 if it has
children; then, for each row with children, their number minus one. Words: ascending within a
context; the first child is its id, and each further child is the difference to the previous one.
Probabilities: one byte per row, which selects one of 256 values at equal distances in logarithm
between the smallest and the largest of its order. The error is at most half a step, 2 to 3 %.
Numbers are stored as planes, all lowest bytes first, because the higher bytes are mostly zero and
compress well.

The weights of shorter contexts are not stored: they are one minus the sum of a context's
probabilities. If this would be less than half of the exact weight, the whole context is rounded
down.

The file has about 1.8 bytes per n-gram. A damaged or malicious file is rejected before memory is
allocated for its claimed size.
"""

import dataclasses
import hashlib
import itertools
import json
import math
import os
import pathlib
import zlib
from collections.abc import Sequence

import numpy as np

from tff_keyboard.data.vocabulary import (
    EOS,
    NUM_SPECIAL,
    SPECIAL_WORDS,
    NormalisationRules,
    Vocabulary,
)
from tff_keyboard.predictors.ngram.compact_ngram import CompactNGram, CompactTable
from tff_keyboard.predictors.ngram.kneser_ney import KneserNey, NGramTable
from tff_keyboard.storage import json_text
from tff_keyboard.storage.errors import DataError, in_one_line

FORMAT = b"tff-keyboard n-gram 1"

_VALUES = 256
_DIGEST_BYTES = 32
_LONGEST_HEADER = 1 << 16
_MAX_ROWS = 1 << 24  # over all orders
_MAX_WORDS = 1 << 20
_MAX_ORDERS = 16
_MAX_WORD_BYTES = 64_000_000
_MAX_INFLATION = 1032  # largest number of bytes from one deflated byte
_LOWEST_LOG = -80.0  # its exp is still representable in float32
_SMALLEST_GAMMA = 1e-6


@dataclasses.dataclass(frozen=True)
class _Header:
    """The header of a file (line 2), which has the sizes of all its parts.

    Attributes:
      size: Rows of the vocabulary.
      rows: Number of n-grams of each order from 2 on.
      contexts: Number of rows of the previous order with children, for each of these orders.
      log_ranges: Smallest and largest logarithm of the probabilities of each order, from 1 on.
      part_bytes: Stored length of each part.
      word_bytes: Length of the words in UTF-8.
      rules: `NormalisationRules` of the words.
      fingerprint: Fingerprint of the vocabulary.
    """

    size: int
    rows: list[int]  # number of n-grams of each order from 2 on
    # Number of rows of the previous order with children, for each of these orders
    contexts: list[int]
    # Smallest and largest logarithm of the probabilities of each order, from 1 on
    log_ranges: list[list[float]]
    part_bytes: list[int]  # stored length of each part
    word_bytes: int
    rules: dict
    fingerprint: str

    def check(self, stored_bytes: int) -> None:
        """Raises `ValueError` if a number has another type, or is larger than the file allows."""
        orders = len(self.rows)
        counts = [self.size, self.word_bytes, *self.rows, *self.contexts, *self.part_bytes]
        logs = [value for pair in self.log_ranges for value in pair]
        right_kinds = (
            all(type(number) is int and number >= 0 for number in counts)
            and all(type(value) is float and math.isfinite(value) for value in logs)
            and len(self.contexts) == orders < _MAX_ORDERS
            and len(self.log_ranges) == len(self.part_bytes) == orders + 1
            and all(len(pair) == 2 for pair in self.log_ranges)
        )
        if not right_kinds:
            raise ValueError("a field of the header has the wrong type")
        if not all(_LOWEST_LOG <= low <= high <= 0 for low, high in self.log_ranges):
            raise ValueError("a range of probabilities is out of bounds")
        before = self.size
        for contexts, rows in zip(self.contexts, self.rows, strict=True):
            if not contexts <= min(before, rows):
                raise ValueError("the numbers of its n-grams contradict each other")
            before = rows
        if sum(self.rows) > _MAX_ROWS:
            raise ValueError("it has too many n-grams")
        if not NUM_SPECIAL < self.size <= _MAX_WORDS or self.word_bytes > _MAX_WORD_BYTES:
            raise ValueError("its vocabulary is too large or empty")
        if sum(self.part_bytes) != stored_bytes:
            raise ValueError("its parts are longer or shorter than the file")


def encode(model: KneserNey, vocabulary: Vocabulary) -> bytes:
    """Returns the content of the file.

    Raises `ValueError` if the sizes of model and vocabulary differ.
    """
    if model.vocabulary_size != len(vocabulary):
        raise ValueError(
            f"The n-gram has {model.vocabulary_size} rows, but the vocabulary has "
            f"{len(vocabulary)}."
        )
    words = "".join(word + "\n" for word in vocabulary.words[NUM_SPECIAL:]).encode()
    codes, log_range = _codes_of(model.unigram[EOS:])
    parts = [bytes(EOS) + codes.tobytes() + words]
    log_ranges = [log_range]
    planes = _planes_for(len(vocabulary))
    for table in model.tables:
        children = np.diff(table.starts)
        has_children = children > 0
        codes, log_range = _codes_of_table(table)
        log_ranges.append(log_range)
        parts.append(
            np.packbits(has_children).tobytes()
            + _to_planes(children[has_children] - 1, planes)
            + _to_planes(_differences(table), planes)
            + codes.tobytes()
        )
    packed = [zlib.compress(part, level=9) for part in parts]
    header = _Header(
        size=len(vocabulary),
        rows=[len(table.words) for table in model.tables],
        contexts=[int(np.count_nonzero(np.diff(table.starts))) for table in model.tables],
        log_ranges=log_ranges,
        part_bytes=[len(part) for part in packed],
        word_bytes=len(words),
        rules=vocabulary.rules.as_json(),
        fingerprint=vocabulary.fingerprint,
    )
    line = json.dumps(dataclasses.asdict(header), sort_keys=True, separators=(",", ":"))
    content = b"\n".join([FORMAT, line.encode(), b"".join(packed)])
    return content + hashlib.sha256(content).digest()


def decode(data: bytes, name: str = "n-gram") -> tuple[CompactNGram, Vocabulary]:
    """Reads the result of `encode`, up to rounding.

    Raises `DataError` if the data are of another kind, incomplete, damaged or inconsistent.
    """
    try:
        return _decode(data)
    except (ValueError, TypeError, KeyError, zlib.error) as error:
        why = in_one_line(error)
        raise DataError(f"{name}: not a complete n-gram file ({why}). Write it again.") from None


def load(path: str | os.PathLike[str]) -> tuple[CompactNGram, Vocabulary]:
    """Reads a file. Raises `DataError` if it cannot be read, and the errors of `decode`."""
    try:
        data = pathlib.Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
    return decode(data, str(path))


def _decode(data: bytes) -> tuple[CompactNGram, Vocabulary]:
    """Returns the model and its words. Raises `ValueError` with a reason if the file is damaged."""
    if not data.startswith(FORMAT + b"\n"):
        raise ValueError(f"the first line is not {FORMAT.decode()!r}")
    content, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if hashlib.sha256(content).digest() != digest:
        raise ValueError("its checksum is wrong: the file is incomplete or damaged")
    start = len(FORMAT) + 1
    end = content.find(b"\n", start, start + _LONGEST_HEADER)
    if end < 0:
        raise ValueError("it has no header")
    header = _Header(**json_text.parse(content[start:end]))
    header.check(len(content) - end - 1)
    bounds = np.cumsum([end + 1, *header.part_bytes])
    stored = [content[start_byte:end_byte] for start_byte, end_byte in itertools.pairwise(bounds)]
    first = _inflated(stored[0], header.size + header.word_bytes)
    vocabulary = _vocabulary(first[header.size :], header)
    unigram = _values(header.log_ranges[0]).astype(np.float64)[
        np.frombuffer(first, np.uint8, header.size)
    ]
    unigram[:EOS] = 0  # PAD and BOS
    unigram /= unigram.sum()
    tables = []
    rows_before = header.size
    for n, part in enumerate(stored[1:]):
        tables.append(_table(part, header, n, rows_before))
        rows_before = header.rows[n]
    return CompactNGram(unigram.astype(np.float32), tables), vocabulary


def _vocabulary(packed_words: bytes, header: _Header) -> Vocabulary:
    """Returns the vocabulary. Raises `ValueError` if its words are not those of the header."""
    words = packed_words.decode("utf-8").split("\n")
    if words.pop() != "" or len(words) != header.size - NUM_SPECIAL:
        raise ValueError("its number of words differs from its header")
    vocabulary = Vocabulary((*SPECIAL_WORDS, *words), NormalisationRules(**header.rules))
    if vocabulary.fingerprint != header.fingerprint:
        raise ValueError("the fingerprint of its words differs from the header")
    return vocabulary


def _table(part: bytes, header: _Header, n: int, rows_before: int) -> CompactTable:
    """Decodes the n-grams of one order.

    Args:
      part: The compressed table.
      header: The header of the file.
      n: 0 for bigrams, 1 for trigrams.
      rows_before: Number of n-grams of the previous order, each of which may be a context.
    """
    rows, contexts = header.rows[n], header.contexts[n]
    planes = _planes_for(header.size)
    bitmap_bytes = -(-rows_before // 8)
    data = _inflated(part, bitmap_bytes + planes * (contexts + rows) + rows)
    bitmap = np.frombuffer(data, np.uint8, bitmap_bytes)
    context_rows = np.flatnonzero(np.unpackbits(bitmap, count=rows_before)).astype(np.int32)
    start = bitmap_bytes
    children = _from_planes(data, start, contexts, planes) + 1
    start += planes * contexts
    differences = _from_planes(data, start, rows, planes)
    codes = np.frombuffer(data, np.uint8, rows, start + planes * rows).copy()
    if len(context_rows) != contexts or children.sum() != rows:
        raise ValueError("the children of its contexts do not add up")
    starts = np.concatenate([[0], np.cumsum(children)])
    words = _words(differences, starts)
    if np.any(words >= header.size) or np.any(words < EOS):
        raise ValueError("an id is out of its vocabulary")
    values = _values(header.log_ranges[n + 1])
    gamma = _gammas(values[codes], starts)
    if np.any(gamma < _SMALLEST_GAMMA):
        raise ValueError("the probabilities after a context add up to more than one")
    return CompactTable(
        context_rows=context_rows,
        starts=starts.astype(np.int32),
        words=words.astype(np.uint16 if header.size <= 1 << 16 else np.uint32),
        codes=codes,
        values=values,
        gamma=gamma.astype(np.float32),
    )


def _words(differences: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Returns ids from first children and differences: running sums within each context."""
    first = np.zeros(len(differences), bool)
    first[starts[:-1]] = True
    if np.any((differences == 0) & ~first):
        raise ValueError("a word occurs twice after a context")
    total = np.cumsum(differences)
    before = (total - differences)[starts[:-1]]
    return total - np.repeat(before, np.diff(starts))


def _differences(table: NGramTable) -> np.ndarray:
    """Returns the input of `_words`."""
    words = table.words.astype(np.int64)
    differences = np.diff(words, prepend=0)
    first = table.starts[:-1][np.diff(table.starts) > 0]
    differences[first] = words[first]
    return differences


def _codes_of(probabilities: np.ndarray, *, down: bool = False) -> tuple[np.ndarray, list[float]]:
    """Returns the codes uint8 [n] of the nearest or next lower values, and their log range."""
    if not len(probabilities):
        return np.zeros(0, np.uint8), [0.0, 0.0]
    logs = np.log(probabilities.astype(np.float64))
    low, high = float(logs.min()), float(logs.max())
    step = (high - low) / (_VALUES - 1) or 1.0
    steps = (logs - low) / step
    # 1e-6, so that rounding does not move the largest value down by one.
    codes = np.floor(steps + 1e-6) if down else np.rint(steps)
    return codes.astype(np.uint8), [low, min(high, 0.0)]


def _codes_of_table(table: NGramTable) -> tuple[np.ndarray, list[float]]:
    """Returns one code per n-gram for its probability, and the range of their logarithms.

    Where the nearest codes would leave too little probability for other words, they are rounded
    down.
    """
    nearest, log_range = _codes_of(table.discounted)
    rounded_down, _ = _codes_of(table.discounted, down=True)
    gammas = _gammas(_values(log_range)[nearest], table.starts)
    too_full = np.repeat(gammas < table.gamma / 2, np.diff(table.starts))
    return np.where(too_full, rounded_down, nearest), log_range


def _values(log_range: Sequence[float]) -> np.ndarray:
    """Returns the 256 probabilities of an order, float32."""
    return np.exp(np.linspace(log_range[0], log_range[1], _VALUES)).astype(np.float32)


def _gammas(probabilities: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Returns one minus the sum of each context's probabilities, [contexts] float64."""
    owner = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    return 1 - np.bincount(owner, probabilities.astype(np.float64), len(starts) - 1)


def _planes_for(size: int) -> int:
    """Returns the number of bytes of an id."""
    return ((size - 1).bit_length() + 7) // 8


def _to_planes(values: np.ndarray, planes: int) -> bytes:
    """Returns the lowest bytes of all values, then the next ones, for better compression."""
    values = values.astype(np.int64)
    return b"".join(((values >> 8 * i) & 255).astype(np.uint8).tobytes() for i in range(planes))


def _from_planes(data: bytes, start: int, count: int, planes: int) -> np.ndarray:
    """Returns the numbers that are stored as planes, [count] int64."""
    values = np.zeros(count, np.int64)
    for i in range(planes):
        plane = np.frombuffer(data, np.uint8, count, start + i * count)
        values |= plane.astype(np.int64) << 8 * i
    return values


def _inflated(part: bytes, size: int) -> bytes:
    """Returns exactly `size` bytes. Raises before it allocates more than `part` can contain."""
    if size > _MAX_INFLATION * len(part):
        raise ValueError("a part is too short for its content")
    inflater = zlib.decompressobj()
    data = inflater.decompress(part, size + 1)
    if len(data) != size or not inflater.eof or inflater.unused_data:
        raise ValueError("a part is longer or shorter than its header says")
    return data
