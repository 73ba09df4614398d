"""The bytes of a message in a store, as a serialised `tf.train.Example`, without TensorFlow.

    Example{features: {feature: {"ids": {int64_list: {value: [...]}}, "tokens": {bytes_list: ...}}}}

The bytes are those of `SerializeToString(deterministic=True)` (keys in order, integers packed), in
a tenth of the time. Source of the format: https://protobuf.dev/programming-guides/encoding. A
word's id is serialised as a varint, so a table of words gives its bytes directly.
"""

import numpy as np

from tff_keyboard.data.store.word_choice import WordChoice
from tff_keyboard.data.vocabulary import NUM_SPECIAL, OOV, Vocabulary, is_mask

IDS_FEATURE = "ids"
TOKENS_FEATURE = "tokens"


def varint(number: int) -> bytes:
    """Returns a number as a varint: seven bits per byte, lowest first, and a continuation bit.

    >>> varint(3), varint(300)
    (b'\\x03', b'\\xac\\x02')
    """
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


class _Varints(dict[int, bytes]):
    """A cache of number -> varint, for lengths, which have few distinct values."""

    def __missing__(self, number: int) -> bytes:
        encoded = self[number] = varint(number)
        return encoded


_LENGTH = _Varints()
_IDS_KEY = b"\x0a\x03" + IDS_FEATURE.encode()
_TOKENS_KEY = b"\x0a\x06" + TOKENS_FEATURE.encode()
_SHORT = b"\x0a%c\x0a%c" + _IDS_KEY + b"\x12%c\x1a%c\x0a%c%b"
_SHORT += b"\x0a%c" + _TOKENS_KEY + b"\x12%c\x0a%c\x0a%c%b"


def example_bytes(ids: bytes, tokens: bytes) -> bytes:
    """Returns a serialised `tf.train.Example` of varints (one or more) and the joined words."""
    n, t = len(ids), len(tokens)
    if n + t < 99:  # every length fits in one byte
        lengths = (n + t + 29, n + 11, n + 4, n + 2, n)
        return _SHORT % (*lengths, ids, t + 14, t + 4, t + 2, t, tokens)
    int64_list = b"\x0a" + _LENGTH[n] + ids
    feature = b"\x1a" + _LENGTH[len(int64_list)] + int64_list
    ids_entry = _IDS_KEY + b"\x12" + _LENGTH[len(feature)] + feature
    strings = b"\x0a" + _LENGTH[t] + tokens
    feature = b"\x0a" + _LENGTH[len(strings)] + strings
    tokens_entry = _TOKENS_KEY + b"\x12" + _LENGTH[len(feature)] + feature
    features = b"\x0a" + _LENGTH[len(ids_entry)] + ids_entry
    features += b"\x0a" + _LENGTH[len(tokens_entry)] + tokens_entry
    return b"\x0a" + _LENGTH[len(features)] + features


def word_ids(example: bytes) -> np.ndarray:
    """Returns the word ids of a message, [words] int32, from the result of `example_bytes`.

    >>> word_ids(example_bytes(varint(4) + varint(300), b"see you")).tolist()
    [4, 300]
    """
    start, end = _content(example, 0, _IDS_KEY, lists=2)
    ids, number, shift = [], 0, 0
    for byte in example[start:end]:
        if byte > 0x7F:
            number |= (byte & 0x7F) << shift
            shift += 7
        elif shift:
            ids.append(number | byte << shift)
            number = shift = 0
        else:
            ids.append(byte)
    return np.array(ids, np.int32)


def words(example: bytes) -> list[str]:
    """Returns the normalised words of a message from the result of `example_bytes`.

    >>> words(example_bytes(varint(4) + varint(300), b"see you"))
    ['see', 'you']
    """
    _, end = _content(example, 0, _IDS_KEY, lists=2)
    start, end = _content(example, end, _TOKENS_KEY, lists=2)
    return example[start:end].decode("utf-8").split(" ")


def _content(example: bytes, start: int, key: bytes, *, lists: int) -> tuple[int, int]:
    """Returns the start and end of a feature's list, `lists` messages deep after its name."""
    at = example.index(key, start) + len(key)
    for _ in range(lists + 1):
        at += 1  # the field's number, followed by its length
        length = shift = 0
        while example[at] > 0x7F:
            length |= (example[at] & 0x7F) << shift
            shift += 7
            at += 1
        length |= example[at] << shift
        at += 1
    return at, at + length


class WordBytes(dict[str, bytes]):
    """A table word -> varint of its id, which counts the OOV words and masks that are looked up.

    Args:
      vocabulary: The vocabulary.
      choice: How the vocabulary was chosen; None if it was given.

    Attributes:
      oov: OOV words looked up since the last `reset`.
      oov_by_counts: Words that would be OOV with a vocabulary chosen by counts alone.
    """

    def __init__(self, vocabulary: Vocabulary, choice: WordChoice | None):
        super().__init__()
        first_instead = choice.first_instead if choice else len(vocabulary)
        self._instead: dict[str, bytes] = {}
        for word_id, word in enumerate(vocabulary.words[NUM_SPECIAL:], start=NUM_SPECIAL):
            table = self if word_id < first_instead else self._instead
            table[word] = varint(word_id)
        self._left_out = choice.left_out if choice else frozenset()
        self._oov_bytes = varint(OOV)
        self.reset()

    def reset(self) -> None:
        """Sets all counts to zero."""
        self.oov = self.oov_by_counts = self.masks = 0

    def __missing__(self, word: str) -> bytes:
        instead = self._instead.get(word)
        if instead is not None:
            self.oov_by_counts += 1
            return instead
        self.oov += 1
        self.oov_by_counts += word not in self._left_out
        self.masks += is_mask(word)
        return self._oov_bytes

    def message(self, tokens: str) -> tuple[int, bytes]:
        """Returns the number of words of a message, and its serialised example."""
        words = tokens.split(" ")
        return len(words), example_bytes(
            b"".join(map(self.__getitem__, words)), tokens.encode("utf-8")
        )
