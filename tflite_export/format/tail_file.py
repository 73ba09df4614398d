"""The tail lexicon next to an exported model, in the layout of the vocabulary file.

    line 1    the format's name
    line 2    SHA-256, in hex, of all bytes that follow
    line 3    JSON: "words", the number of words
    then      zlib: one byte a word, the number of characters it shares with the previous word;
              one byte a word, -8 times the logarithm of its share of OOV words; then the rest of
              each word

20,000 words take about 57 kB. No word is in the model's table, and every word consists of
characters that can be displayed (`tail_lexicon.may_be_listed`), because its words are suggested and
the file may come from another person.
"""

import base64
import binascii
import zlib
from collections.abc import Container

import numpy as np

from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.predictors.tail_lexicon import TailLexicon, of_steps, steps_of
from tff_keyboard.storage import json_text
from tff_keyboard.storage.errors import ExportError
from tflite_export.format import vocabulary_file

FORMAT = b"tff-keyboard tail lexicon 1"
_MAX_WORDS = 1_000_000


def encode(lexicon: TailLexicon) -> bytes:
    """Returns the file of a lexicon. Shares are rounded down to the steps of the format."""
    packed = vocabulary_file.pack(lexicon.words, steps_of(lexicon.shares).tobytes())
    return vocabulary_file.with_checksum(FORMAT, {"words": len(lexicon)}, packed)


def decode(data: bytes, vocabulary: Vocabulary, name: str = "lexicon") -> TailLexicon:
    """Reads the file of a lexicon, for a keyboard with this vocabulary.

    Raises:
      ExportError: If it is another kind of file, cut short or damaged, or if one of its words is in
        the vocabulary or must not be displayed.
    """
    try:
        header, packed = vocabulary_file.checked_body(data, FORMAT).split(b"\n", 1)
        count = json_text.parse(header)["words"]
        if type(count) is not int or not 0 < count <= _MAX_WORDS:
            raise ValueError(f"it does not have 1 to {_MAX_WORDS:,} words")
        words, steps = vocabulary_file.unpack(packed, count, bytes_a_word=1)
        lexicon = of_steps(words, np.frombuffer(steps, np.uint8))
        lexicon.check_beyond(vocabulary)
    except (ValueError, TypeError, KeyError, zlib.error) as error:
        raise ExportError(
            f"{name}: not a complete lexicon ({error}). Export the model again."
        ) from None
    return lexicon


def packed_capitals(lexicon: TailLexicon, names: Container[str]) -> str:
    """Encodes which words of a lexicon are written with a capital, for a manifest.

    One bit for each word in the lexicon's order, deflated, in base 64.
    """
    bits = np.packbits([word in names for word in lexicon.words])
    return base64.b64encode(zlib.compress(bits.tobytes(), 9)).decode()


def unpacked_capitals(lexicon: TailLexicon, packed: str) -> list[str]:
    """Returns the words that `packed_capitals` marks as written with a capital.

    Raises:
      ExportError: If `packed` is damaged, or belongs to a lexicon of another length.
    """
    size = -(-len(lexicon) // 8)
    try:
        unpacker = zlib.decompressobj()
        bits = unpacker.decompress(base64.b64decode(packed, validate=True), size + 1)
    except (binascii.Error, zlib.error, ValueError) as error:
        raise ExportError(f"capitals of a lexicon: {error}. Export the model again.") from None
    if len(bits) != size:
        raise ExportError(
            "capitals of a lexicon: they belong to another lexicon. Export the model again."
        )
    marked = np.flatnonzero(np.unpackbits(np.frombuffer(bits, np.uint8), count=len(lexicon)))
    return [lexicon.words[row] for row in marked]
