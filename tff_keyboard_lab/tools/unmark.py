"""Adds strings that are words without their marks to `misspelt/LANGUAGE.txt`: "musica", "nao".

    python -m tff_keyboard_lab.tools.unmark models/base_es/keyboard.tflite --frequencies=es.tsv \
        --text=es.tsv.gz

`es.tsv` has lines of `word<TAB>frequency` (wordfreq, see docs/phone/export.md). Lists that were
made of text have such strings because people leave marks out. A string is added if the list has a
marked word that becomes the string without some or all of its marks, and

- that word is six times as frequent. Some of these strings are rare words as well ("publico" is a
  form of a Spanish verb).
- Or edited text (`client<TAB>sentence`, of which only clients for training are read) has the word
  but not the string, though there should be at least three of it: the word's count times the ratio
  of both frequencies. Text of one kind may lack a form of a verb. Strings that differ in their last
  letter are therefore left alone ("noto" and "notó").

Words of the model's vocabulary are never added, because there the context decides.

German: wordfreq writes ss for ß. A string with ss is added if the vocabulary has it with ß only.
"""

import argparse
import collections
import gzip
import pathlib
import re
from collections.abc import Collection, Iterator, Mapping

from tff_keyboard.data.text import casing, word_list
from tff_keyboard.data.vocabulary import NUM_SPECIAL
from tff_keyboard_app.keyboard.languages import LANGUAGES, Language
from tff_keyboard_app.keyboard.missing_marks import MissingMarks, plain_forms
from tff_keyboard_lab.tools.halves import is_held_out
from tff_keyboard_lab.tools.respell import write_misspelt
from tflite_export.runtime.hybrid_keyboard import HybridKeyboardPredictor, open_keyboard

_WORD = re.compile(r"[^\W\d_]+")
_RATIO = 6.0  # of the frequencies of a word and of the string without its marks
_MISSING_FROM = 3.0  # expected uses in edited text that has none
_LISTED_FROM = 1e-7  # frequency of strings that the lexicon does not have
# Words that are right with ss as well as with ß.
_RIGHT_WITH_SS = frozenset(
    {"ass", "busse", "bussen", "flosse", "flossen", "geschosse", "geschossen", "masse", "massen"}
    | {"russ", "russen", "strauss"}
)


def unmarked(
    frequencies: Mapping[str, float],
    vocabulary: Collection[str],
    lexicon: Collection[str],
    language: Language,
    counts: Mapping[str, int],
) -> set[str]:
    """Returns the strings that are probably words without their marks.

    Args:
      frequencies: Word -> frequency.
      vocabulary: Words that are right.
      lexicon: Further words that the keyboard offers.
      language: The language.
      counts: Word -> number of uses in edited text.
    """
    marks = MissingMarks(frequencies, language)
    strings = set()
    for string, frequency in frequencies.items():
        if string not in lexicon and frequency < _LISTED_FROM:
            continue
        for word in marks.likely(string):
            share = frequency / frequencies[word]
            is_missing = (
                string[:-1] != word[:-1]
                and string not in counts
                and share * counts.get(word, 0) >= _MISSING_FROM
            )
            if share * _RATIO <= 1.0 or is_missing:
                strings.add(string)
    if "ss" in language.marked:
        strings |= {s for word in vocabulary for s in _with_ss(word, language)} - _RIGHT_WITH_SS
    return strings - set(vocabulary)


def _with_ss(word: str, language: Language) -> Iterator[str]:
    """Yields a word with ss for ß, and without other marks as well."""
    if "ß" in word:
        yield word.replace("ß", "ss")
        yield from plain_forms(word, language)


def counted(path: pathlib.Path, code: str) -> dict[str, int]:
    """Returns the words of a text in small letters, with their numbers of uses for training."""
    counts: collections.Counter[str] = collections.Counter()
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            client, text = line.rstrip("\n").split("\t", 1)
            if not is_held_out(client):
                counts.update(_WORD.findall(casing.lower(text, code)))
    return dict(counts)


def argument_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=pathlib.Path, help="exported model with a lexicon")
    parser.add_argument("--frequencies", type=pathlib.Path, required=True)
    parser.add_argument("--text", type=pathlib.Path, required=True)
    return parser


def main() -> None:
    """See the module."""
    flags = argument_parser().parse_args()
    keyboard = open_keyboard(flags.model)
    if not isinstance(keyboard, HybridKeyboardPredictor) or keyboard.tail is None:
        raise SystemExit(f"{flags.model}: it has no lexicon. Export it with --ngram and --tail.")
    rules = keyboard.vocabulary.rules
    strings = unmarked(
        word_list.read_word_list(flags.frequencies, rules),
        frozenset(keyboard.vocabulary.words[NUM_SPECIAL:]),
        frozenset(keyboard.tail.words),
        LANGUAGES[rules.language],
        counted(flags.text, rules.language),
    )
    write_misspelt(rules.language, strings, frozenset())


if __name__ == "__main__":
    main()
