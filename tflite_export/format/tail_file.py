"""The tail lexicon beside an exported model, in the layout of the vocabulary beside it.

    line 1    the format's name
    line 2    SHA-256, hex, of everything that follows
    line 3    JSON: "words", how many there are
    then      zlib: one byte a word, the characters it shares with the word before; one byte a word,
              -8 times the logarithm of its share of what is OOV; then the rest of each word

20,000 words take some 57 kB. No word is of the table, and all of each can be seen
(`tail_lexicon.may_be_listed`): a file goes to a strip, and may be anybody's.
"""

import json
import zlib

import numpy as np

from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.predictors.tail_lexicon import TailLexicon, of_steps, steps_of
from tff_keyboard.storage.errors import ExportError
from tflite_export.format import vocabulary_file

FORMAT = b"tff-keyboard tail lexicon 1"
_MOST_WORDS = 1_000_000


def encode(lexicon: TailLexicon) -> bytes:
    """The file of a lexicon; shares are rounded down to its steps."""
    packed = vocabulary_file.pack(lexicon.words, steps_of(lexicon.shares).tobytes())
    return vocabulary_file.with_checksum(FORMAT, {"words": len(lexicon)}, packed)


def decode(data: bytes, vocabulary: Vocabulary, name: str = "lexicon") -> TailLexicon:
    """The inverse, for a keyboard of this vocabulary.

    Raises `ExportError` if it is another kind of file, cut short or damaged, or if a word of it is
    one of the vocabulary or none to be shown.
    """
    try:
        header, packed = vocabulary_file.checked_body(data, FORMAT).split(b"\n", 1)
        count = json.loads(header)["words"]
        if type(count) is not int or not 0 < count <= _MOST_WORDS:
            raise ValueError(f"it has not from 1 to {_MOST_WORDS:,} words")
        words, steps = vocabulary_file.unpack(packed, count, bytes_a_word=1)
        lexicon = of_steps(words, np.frombuffer(steps, np.uint8))
        lexicon.check_beyond(vocabulary)
    except (ValueError, TypeError, KeyError, RecursionError, zlib.error) as error:
        raise ExportError(
            f"{name}: not a whole lexicon ({error}). Export the model again."
        ) from None
    return lexicon
