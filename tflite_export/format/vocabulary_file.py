"""The vocabulary next to an exported model: sorted, front-coded, deflated.

    line 1    the format's name
    line 2    SHA-256, in hex, of all bytes that follow
    line 3    JSON: "rules", "size", "fingerprint" of the vocabulary
    then      zlib: one byte a word, the number of characters it shares with the previous word (at
              most 255); then the rest of each word in UTF-8, each followed by a line feed

Words are sorted by code points, and so are the rows of an exported model. The file therefore needs
no table from position to id, and the words that continue a prefix are one range of ids. Special ids
stay 0 to 3. The code is plain Python and zlib, which every phone has.
"""

import hashlib
import json
import os
import zlib
from collections.abc import Sequence

from tff_keyboard.data.vocabulary import NUM_SPECIAL, SPECIAL_WORDS, NormalisationRules, Vocabulary
from tff_keyboard.storage import json_text
from tff_keyboard.storage.errors import ExportError, in_one_line

FORMAT = b"tff-keyboard sorted vocabulary 2"

_MAX_SHARED = 255  # one byte

# Limits, so that a hostile file cannot fill the memory: a word takes 60 bytes and its characters.
_MAX_ROWS = 1_000_000
_MAX_BYTES = 16_000_000  # of the packed part, unpacked
_MAX_CHARACTERS = 32_000_000  # of all words together; front coding can expand to many


def sorted_rows(vocabulary: Vocabulary) -> list[int]:
    """Returns the row of `vocabulary` for each row of its sorted form.

    The special ids come first, then the words in order.

    >>> rows = sorted_rows(Vocabulary((*SPECIAL_WORDS, "to", "a", "so"), NormalisationRules()))
    >>> rows
    [0, 1, 2, 3, 5, 6, 4]
    """
    words = range(NUM_SPECIAL, len(vocabulary))
    return [*range(NUM_SPECIAL), *sorted(words, key=vocabulary.words.__getitem__)]


def sorted_vocabulary(vocabulary: Vocabulary) -> Vocabulary:
    """Returns the vocabulary with its words sorted."""
    rows = sorted_rows(vocabulary)
    return Vocabulary([vocabulary.words[row] for row in rows], vocabulary.rules)


def encode(vocabulary: Vocabulary) -> bytes:
    """Encodes a sorted vocabulary.

    Raises:
      ValueError: If the words are not sorted.
    """
    words = vocabulary.words[NUM_SPECIAL:]
    if list(words) != sorted(words):
        raise ValueError("The words must be sorted. Call `sorted_vocabulary` first.")
    header = {
        "rules": vocabulary.rules.as_json(),
        "size": len(vocabulary),
        "fingerprint": vocabulary.fingerprint,
    }
    return with_checksum(FORMAT, header, pack(words))


def with_checksum(format_line: bytes, header: object, packed: bytes) -> bytes:
    """Returns a file of the layout above."""
    body = json.dumps(header, sort_keys=True).encode() + b"\n" + packed
    return b"\n".join([format_line, hashlib.sha256(body).hexdigest().encode(), body])


def pack(words: Sequence[str], further: bytes = b"") -> bytes:
    """Front-codes and deflates sorted words.

    Args:
      words: Words, sorted by code points.
      further: Bytes stored with the words, the same number for each word.
    """
    shared_lengths, endings, before = bytearray(), [], ""
    for word in words:
        alike = os.path.commonprefix([before, word])  # noqa: RUF071 - compares characters, not paths
        shared = min(len(alike), _MAX_SHARED)
        shared_lengths.append(shared)
        endings.append(word[shared:] + "\n")
        before = word
    return zlib.compress(bytes(shared_lengths) + further + "".join(endings).encode(), level=9)


def decode(data: bytes, name: str = "vocabulary") -> Vocabulary:
    """Decodes the output of `encode`, and checks checksum, size, order and fingerprint.

    Raises:
      ExportError: If it is another kind of file, cut short or damaged.
    """
    try:
        header_line, packed = checked_body(data, FORMAT).split(b"\n", 1)
        header = json_text.parse(header_line)
        size = header["size"]
        if type(size) is not int or not NUM_SPECIAL < size <= _MAX_ROWS:
            raise ValueError(f"it does not have {NUM_SPECIAL + 1} to {_MAX_ROWS:,} rows")
        words, _ = unpack(packed, size - NUM_SPECIAL)
        vocabulary = Vocabulary((*SPECIAL_WORDS, *words), NormalisationRules(**header["rules"]))
        if vocabulary.fingerprint != header["fingerprint"]:
            raise ValueError("the fingerprint differs from the header")
    except (ValueError, TypeError, KeyError, zlib.error) as error:
        raise ExportError(
            f"{name}: not a complete vocabulary file ({in_one_line(error)}). Export the model "
            "again."
        ) from None
    return vocabulary


def checked_body(data: bytes, magic: bytes) -> bytes:
    """Returns the bytes after the format's name and the checksum.

    Raises:
      ValueError: If the file has another format, or is damaged.
    """
    format_line, after_format = data.split(b"\n", 1)
    if format_line != magic:
        raise ValueError(f"the first line is not {magic.decode()!r}")
    checksum, body = after_format.split(b"\n", 1)
    if hashlib.sha256(body).hexdigest().encode() != checksum:
        raise ValueError("the checksum differs from the content")
    return body


def unpack(packed: bytes, count: int, bytes_a_word: int = 0) -> tuple[list[str], bytes]:
    """Decodes the output of `pack`, and limits the memory that a hostile file can use.

    Returns:
      The `count` words, and the `bytes_a_word * count` bytes stored with them.

    Raises:
      ValueError, zlib.error: If the number of words differs from `count`, or the data is damaged.
    """
    inflater = zlib.decompressobj()
    data = inflater.decompress(packed, _MAX_BYTES)
    start = count * (1 + bytes_a_word)
    if not inflater.eof or inflater.unused_data or start > len(data):
        raise ValueError("its packed part is incomplete, too long or of another size")
    if data.count(b"\n", start) != count or not data.endswith(b"\n"):
        raise ValueError("its number of words differs from its header")
    endings = data[start:-1].decode("utf-8").split("\n")
    words: list[str] = []
    before, characters = "", 0
    for shared, ending in zip(data[:count], endings, strict=True):
        word = before[:shared] + ending
        characters += len(word)
        if characters > _MAX_CHARACTERS:
            raise ValueError(f"its words have more than {_MAX_CHARACTERS:,} characters")
        if words and word <= before:
            raise ValueError("its words are not sorted")
        words.append(word)
        before = word
    return words, data[count:start]
