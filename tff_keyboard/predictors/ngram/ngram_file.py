"""An n-gram with its words in one small file.

    line 1    the format's name
    line 2    JSON: what `_Header` holds
    then      parts, each deflated
                0         a byte a unigram (V of them), then the words, a line feed behind each
                n - 1     order n >= 2: children | words | probabilities
    last 32   SHA-256 of everything before

Children: a bit for each row of the order before (each id, for order 2), whether anything follows;
for each row that has children, their number less one. Words: ascending within a context, so the
first child is its id and each further one the difference to the one before. Probabilities: a byte a
row, which picks one of 256 values at equal distances in logarithm between the smallest and the
largest of its order: off by half a step at most, 2 to 3 %. Numbers are stored as planes, all lowest
bytes first: the higher bytes are mostly zero and deflate away.

Weights of shorter contexts are not stored: they are what the probabilities of a context leave of
one. Where that would be less than half of what there was, the whole context is rounded down.

About 1.8 bytes an n-gram. A damaged or hostile file is refused before memory is taken for what it
claims to hold.
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
from tff_keyboard.predictors.ngram.kneser_ney import KneserNey, Table
from tff_keyboard.storage.errors import DataError, in_one_line

FORMAT = b"tff-keyboard n-gram 1"

_VALUES = 256
_DIGEST_BYTES = 32
_LONGEST_HEADER = 1 << 16
_MOST_ROWS = 1 << 24  # of all orders together
_MOST_WORDS = 1 << 20
_MOST_ORDERS = 16
_MOST_WORD_BYTES = 64_000_000
_MOST_INFLATION = 1032  # bytes that one deflated byte can stand for
_LOWEST_LOG = -80.0  # exp of it is still a float32
_SMALLEST_GAMMA = 1e-6


@dataclasses.dataclass(frozen=True)
class _Header:
    """Line 2."""

    size: int
    rows: list[int]  # n-grams of orders 2 on
    # Rows of the order before that have children, one number for each of these orders
    contexts: list[int]
    # Smallest and largest logarithm of each order's probabilities, order 1 first
    log_ranges: list[list[float]]
    part_bytes: list[int]  # length of each part as stored
    word_bytes: int
    rules: dict
    fingerprint: str

    def check(self, stored_bytes: int) -> None:
        """Raises ValueError where a number is of another kind, or more than the file can hold."""
        orders = len(self.rows)
        numbers = [self.size, self.word_bytes, *self.rows, *self.contexts, *self.part_bytes]
        logs = [value for pair in self.log_ranges for value in pair]
        right_kinds = (
            all(type(number) is int and number >= 0 for number in numbers)
            and all(type(value) is float and math.isfinite(value) for value in logs)
            and len(self.contexts) == orders < _MOST_ORDERS
            and len(self.log_ranges) == len(self.part_bytes) == orders + 1
            and all(len(pair) == 2 for pair in self.log_ranges)
        )
        if not right_kinds:
            raise ValueError("a field of the header is of another kind")
        if not all(_LOWEST_LOG <= low <= high <= 0 for low, high in self.log_ranges):
            raise ValueError("a range of probabilities is out of bounds")
        before = self.size
        for contexts, rows in zip(self.contexts, self.rows, strict=True):
            if not contexts <= min(before, rows):
                raise ValueError("the numbers of its n-grams contradict each other")
            before = rows
        if sum(self.rows) > _MOST_ROWS:
            raise ValueError("it has too many n-grams")
        if not NUM_SPECIAL < self.size <= _MOST_WORDS or self.word_bytes > _MOST_WORD_BYTES:
            raise ValueError("its vocabulary is too large or empty")
        if sum(self.part_bytes) != stored_bytes:
            raise ValueError("its parts are longer or shorter than the file")


def encode(model: KneserNey, vocabulary: Vocabulary) -> bytes:
    """The content of the file. Raises `ValueError` if sizes of model and vocabulary differ."""
    if model.vocabulary_size != len(vocabulary):
        raise ValueError(
            f"The n-gram has {model.vocabulary_size} rows and the vocabulary {len(vocabulary)}."
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
    """The inverse of `encode`, up to rounding.

    Raises `DataError` if it is another kind of file, cut short, damaged, or claims what cannot be.
    """
    try:
        return _decode(data)
    except (ValueError, TypeError, KeyError, RecursionError, zlib.error) as error:
        why = in_one_line(error)
        raise DataError(f"{name}: not a whole n-gram file ({why}). Write it again.") from None


def load(path: str | os.PathLike[str]) -> tuple[CompactNGram, Vocabulary]:
    """Reads a file; errors are those of `decode`, and a `DataError` where it cannot be read."""
    try:
        data = pathlib.Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
    return decode(data, str(path))


def _decode(data: bytes) -> tuple[CompactNGram, Vocabulary]:
    if not data.startswith(FORMAT + b"\n"):
        raise ValueError(f"the first line is not {FORMAT.decode()!r}")
    content, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if hashlib.sha256(content).digest() != digest:
        raise ValueError("its checksum does not fit: it is cut short or damaged")
    start = len(FORMAT) + 1
    end = content.find(b"\n", start, start + _LONGEST_HEADER)
    if end < 0:
        raise ValueError("it has no header")
    header = _Header(**json.loads(content[start:end]))
    header.check(len(content) - end - 1)
    bounds = np.cumsum([end + 1, *header.part_bytes])
    stored = [content[a:b] for a, b in itertools.pairwise(bounds)]
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
    words = packed_words.decode("utf-8").split("\n")
    if words.pop() != "" or len(words) != header.size - NUM_SPECIAL:
        raise ValueError("it holds another number of words than its header says")
    vocabulary = Vocabulary((*SPECIAL_WORDS, *words), NormalisationRules(**header.rules))
    if vocabulary.fingerprint != header.fingerprint:
        raise ValueError("the fingerprint of its words differs from the header")
    return vocabulary


def _table(part: bytes, header: _Header, n: int, rows_before: int) -> CompactTable:
    rows, contexts = header.rows[n], header.contexts[n]
    planes = _planes_for(header.size)
    bitmap_bytes = -(-rows_before // 8)
    data = _inflated(part, bitmap_bytes + planes * (contexts + rows) + rows)
    bitmap = np.frombuffer(data, np.uint8, bitmap_bytes)
    context_rows = np.flatnonzero(np.unpackbits(bitmap, count=rows_before)).astype(np.int32)
    place = bitmap_bytes
    children = _from_planes(data, place, contexts, planes) + 1
    place += planes * contexts
    differences = _from_planes(data, place, rows, planes)
    codes = np.frombuffer(data, np.uint8, rows, place + planes * rows).copy()
    if len(context_rows) != contexts or children.sum() != rows:
        raise ValueError("the children of its contexts do not add up")
    starts = np.concatenate([[0], np.cumsum(children)])
    words = _words(differences, starts)
    if np.any(words >= header.size) or np.any(words < EOS):
        raise ValueError("an id is out of its vocabulary")
    values = _values(header.log_ranges[n + 1])
    gamma = _gammas(values[codes], starts)
    if np.any(gamma < _SMALLEST_GAMMA):
        raise ValueError("the probabilities behind a context add up to more than one")
    return CompactTable(
        context_rows=context_rows,
        starts=starts.astype(np.int32),
        words=words.astype(np.uint16 if header.size <= 1 << 16 else np.uint32),
        codes=codes,
        values=values,
        gamma=gamma.astype(np.float32),
    )


def _words(differences: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Ids from first children and differences: running sums that begin anew at each context."""
    first = np.zeros(len(differences), bool)
    first[starts[:-1]] = True
    if np.any((differences == 0) & ~first):
        raise ValueError("a word stands twice behind a context")
    total = np.cumsum(differences)
    before = (total - differences)[starts[:-1]]
    return total - np.repeat(before, np.diff(starts))


def _differences(table: Table) -> np.ndarray:
    """What `_words` reads."""
    words = table.words.astype(np.int64)
    differences = np.diff(words, prepend=0)
    first = table.starts[:-1][np.diff(table.starts) > 0]
    differences[first] = words[first]
    return differences


def _codes_of(probabilities: np.ndarray, *, down: bool = False) -> tuple[np.ndarray, list[float]]:
    """The nearest values in logarithm, or the next below: uint8 [n], and their range."""
    if not len(probabilities):
        return np.zeros(0, np.uint8), [0.0, 0.0]
    logs = np.log(probabilities.astype(np.float64))
    low, high = float(logs.min()), float(logs.max())
    step = (high - low) / (_VALUES - 1) or 1.0
    places = (logs - low) / step
    # 1e-6: the largest must not fall one value down by rounding.
    codes = np.floor(places + 1e-6) if down else np.rint(places)
    return codes.astype(np.uint8), [low, min(high, 0.0)]


def _codes_of_table(table: Table) -> tuple[np.ndarray, list[float]]:
    nearest, log_range = _codes_of(table.discounted)
    below, _ = _codes_of(table.discounted, down=True)
    left = _gammas(_values(log_range)[nearest], table.starts)
    too_full = np.repeat(left < table.gamma / 2, np.diff(table.starts))
    return np.where(too_full, below, nearest), log_range


def _values(log_range: Sequence[float]) -> np.ndarray:
    """The 256 probabilities of an order, float32."""
    return np.exp(np.linspace(log_range[0], log_range[1], _VALUES)).astype(np.float32)


def _gammas(probabilities: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """What the rows of each context leave of one: [contexts] float64."""
    owner = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    return 1 - np.bincount(owner, probabilities.astype(np.float64), len(starts) - 1)


def _planes_for(size: int) -> int:
    """Bytes of an id."""
    return ((size - 1).bit_length() + 7) // 8


def _to_planes(values: np.ndarray, planes: int) -> bytes:
    values = values.astype(np.int64)
    return b"".join(((values >> 8 * i) & 255).astype(np.uint8).tobytes() for i in range(planes))


def _from_planes(data: bytes, start: int, count: int, planes: int) -> np.ndarray:
    """[count] int64."""
    values = np.zeros(count, np.int64)
    for i in range(planes):
        plane = np.frombuffer(data, np.uint8, count, start + i * count)
        values |= plane.astype(np.int64) << 8 * i
    return values


def _inflated(part: bytes, size: int) -> bytes:
    """Exactly `size` bytes; refused before they are allocated where `part` cannot hold as many."""
    if size > _MOST_INFLATION * len(part):
        raise ValueError("a part is too short for what it should hold")
    inflater = zlib.decompressobj()
    data = inflater.decompress(part, size + 1)
    if len(data) != size or not inflater.eof or inflater.unused_data:
        raise ValueError("a part is longer or shorter than its header says")
    return data
