"""Tokenises text in plain Python: the rules, and the patterns that `tokenizer.py` uses too.

A phone has no TensorFlow operators for text, but must split typed text into exactly the tokens that
the model was trained on. A property test compares the two. docs/data.md gives the reasons.

`mode="words"`:

1. Apostrophes and hyphens of all shapes become `'` and `-`.
2. A character that is neither a word character (`data.text.word_characters`), nor ASCII, nor part
   of an emoji becomes a space.
3. NFKC, then lower case (`data.text.casing`, by language), then NFKC again, because `J̌` in lower
   case has a composed form.
4. The text is read from the left, and the first of the following that matches is a token; all other
   text separates tokens: web address (becomes `<url>`), mask (`<#>`, `<TIME>`, `<unk>`), number
   with inner `.`, `,` or `:`, word with inner `'` or `-`, emoji or flag.

A run of more than `LONGEST_RUN` characters without white space is cut first, because normal forms
take quadratic time in a run of combining marks.

`mode="whitespace"`: splits at white space only, and converts to lower case if requested.
"""

import functools
import re
import unicodedata
from collections.abc import Mapping, Sequence

from tff_keyboard.data.text import casing, word_characters
from tff_keyboard.data.vocabulary import NormalisationRules

URL_MASK = "<url>"
LONGEST_RUN = 1000
_REMEMBERED_CHUNKS = 300_000  # about 70 MB

_WORD = word_characters.ranges_class(word_characters.WORD_RANGES)
_EMOJI = word_characters.ranges_class(word_characters.EMOJI_RANGES)
_FLAG = word_characters.ranges_class(word_characters.FLAG_RANGES)
_EMOJI_MARK = word_characters.ranges_class(
    word_characters.VARIATION_RANGES, word_characters.SKIN_TONE_RANGES
)
_NON_JOINER = chr(word_characters.ZERO_WIDTH_NON_JOINER)  # inside words of Persian
_JOINER = chr(word_characters.ZERO_WIDTH_JOINER)  # inside words of Indic scripts, and in emoji

# The patterns work in RE2 and `re`. None has a look-around, and none can
# take more than linear time.
APOSTROPHES = "[`\u00b4\u2018\u2019\u201b\u02bc\u2032\uff07]"
HYPHENS = "[\u2010\u2011\ufe63\uff0d]"
NOT_TEXT = f"[^\\x20-\\x7e{_WORD}{_EMOJI}{_FLAG}{_EMOJI_MARK}{_NON_JOINER}{_JOINER}]"
URL = "(?:[Hh][Tt][Tt][Pp][Ss]?://|[Ww][Ww][Ww]\\.)[^ ]+"
MASK = "<(?:#|[A-Za-z_]{1,20})>"
MASK_OF_TWO_I = "<(?:#|[A-Za-zı_]{1,20})>"  # `<TIME>` in Turkish lower case, too
NUMBER = "[0-9]+(?:[.,:][0-9]+)+"
WORD = f"[{_WORD}]+(?:['\\-{_NON_JOINER}{_JOINER}][{_WORD}]+)*"
EMOJI = f"[{_EMOJI}][{_EMOJI_MARK}]{{0,2}}(?:{_JOINER}[{_EMOJI}][{_EMOJI_MARK}]{{0,2}})*"
FLAG = f"[{_FLAG}][{_FLAG}]"
WHITESPACE = f"[{word_characters.ranges_class(word_characters.WHITESPACE_RANGES)}]+"

FINAL_SIGMA = "σ$"  # `casing` has converted it to a middle sigma

_APOSTROPHES = re.compile(APOSTROPHES)
_HYPHENS = re.compile(HYPHENS)
_NOT_TEXT = re.compile(NOT_TEXT)
_URL = re.compile(URL)
_WHITESPACE = re.compile(WHITESPACE)
_RUN = re.compile("\\S+", re.ASCII)
_FINAL_SIGMA = re.compile("σ\\Z")
_LOWER_FIRST: Mapping[int, str] = str.maketrans(casing.LOWER_FIRST)
# The characters with a lower case in TensorFlow's Unicode 13.0; later Python versions have more.
_MAY_HAVE_CASE = re.compile(f"[{_WORD}\u2160-\u216f\u24b6-\u24cf\ua7c7\ua7c9\ua7f5]+")


def token_pattern(language: str) -> str:
    """Returns the regular expression of a token in text with its final normal form and case."""
    mask = MASK_OF_TWO_I if casing.has_two_i(language) else MASK
    return f"{URL}|{mask}|{NUMBER}|{WORD}|{EMOJI}|{FLAG}"


class PythonTokenizer:
    """A tokeniser that does not need TensorFlow.

    >>> PythonTokenizer(NormalisationRules()).tokenize(["See u @ 7:30, it’s GR8 😂 <TIME>!"])
    [['see', 'u', '7:30', "it's", 'gr8', '😂', '<time>']]
    >>> PythonTokenizer(NormalisationRules(mode="whitespace", lowercase=False)).tokenize(["A , b"])
    [['A', ',', 'b']]
    """

    def __init__(self, rules: NormalisationRules):
        self.rules = rules
        self._has_two_i = casing.has_two_i(rules.language)
        self._token = re.compile(token_pattern(rules.language))
        self._lower_first = str.maketrans(dict(casing.lower_first(rules.language)))
        self._joined_chunk = functools.lru_cache(_REMEMBERED_CHUNKS)(self._tokens_with_spaces)

    def tokenize(self, texts: Sequence[str]) -> list[list[str]]:
        """Returns the tokens of each text, in order. An unpaired surrogate counts as `?`."""
        return [self.tokenize_one(text) for text in texts]

    def tokenize_one(self, text: str) -> list[str]:
        """Returns the tokens of one text."""
        lowercase = self.rules.lowercase
        is_words = self.rules.mode == "words"
        is_plain = len(text) <= LONGEST_RUN and text.isascii() and text.isprintable()
        if is_words and is_plain and not (self._has_two_i and "I" in text):
            # A shortcut with the same result as the rules below for such text.
            text = text.replace("`", "'")
            words = self._token.findall(text.lower() if lowercase else text)
            return [URL_MASK if _URL.fullmatch(token) else token for token in words]
        text = text.encode("utf-8", "replace").decode("utf-8")
        if not is_words:
            tokens = [token for token in _WHITESPACE.split(text) if token]
            if lowercase:
                tokens = [lower_case(token, self._lower_first) for token in tokens]
        else:
            text = cut_long_runs(text)
            text = _NOT_TEXT.sub(" ", _HYPHENS.sub("-", _APOSTROPHES.sub("'", text)))
            text = unicodedata.normalize("NFKC", text)
            if lowercase:
                text = unicodedata.normalize("NFKC", lower_case(text, self._lower_first))
            tokens = [
                URL_MASK if _URL.fullmatch(token) else token for token in self._token.findall(text)
            ]
        if lowercase:
            tokens = [_FINAL_SIGMA.sub("ς", token) for token in tokens]
        return tokens

    def joined(self, text: str) -> str:
        """Returns the tokens of a text joined by single spaces; "" if it has none.

        It tokenises each distinct chunk between white space only once, because users type the same
        chunks again and again: no token contains white space, and neither normal forms nor lower
        case depend on text across white space.
        """
        # In mode "whitespace" the rules define white space, not Python. Long runs are cut by their
        # position in the text, which a chunk does not have.
        if self.rules.mode == "whitespace" or len(text) > LONGEST_RUN:
            return self._tokens_with_spaces(text)
        return " ".join(filter(None, map(self._joined_chunk, text.split())))

    def _tokens_with_spaces(self, text: str) -> str:
        return " ".join(self.tokenize_one(text))


def cut_long_runs(text: str) -> str:
    """Inserts a space after every `LONGEST_RUN` characters without white space.

    Both tokenisers use it.

    >>> [len(part) for part in cut_long_runs("x" * 2500).split()]
    [1000, 1000, 500]
    """
    if len(text) <= LONGEST_RUN:
        return text
    return _RUN.sub(
        lambda match: " ".join(
            match.group()[start : start + LONGEST_RUN]
            for start in range(0, len(match.group()), LONGEST_RUN)
        ),
        text,
    )


def lower_case(text: str, first: Mapping[int, str] = _LOWER_FIRST) -> str:
    """Returns the text in lower case, letter by letter. Replaces the letters in `first` before."""
    return _MAY_HAVE_CASE.sub(lambda match: match.group().lower(), text.translate(first))
