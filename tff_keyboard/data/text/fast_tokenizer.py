"""A fast `PythonTokenizer` for `prepare`, which tokenises each distinct chunk only once.

No token contains white space, and neither normal forms nor lower case depend on text across white
space. The tokens of a message are therefore the tokens of its chunks between white space. Users
type the same chunks again and again, so most chunks take one lookup. `tests/data/text/test_text.py`
compares it with the plain tokeniser on arbitrary strings.
"""

import functools

from tff_keyboard.data.text.python_tokenizer import LONGEST_RUN, PythonTokenizer
from tff_keyboard.data.vocabulary import NormalisationRules

_MAX_CHUNKS = 300_000  # about 70 MB


class FastTokenizer:
    """A tokeniser that is equal to `PythonTokenizer` on every input.

    >>> FastTokenizer(NormalisationRules()).joined("Haha see u @ 7:30!")
    'haha see u 7:30'
    """

    def __init__(self, rules: NormalisationRules):
        self.rules = rules
        self._plain = PythonTokenizer(rules)
        self._joined_chunk = functools.lru_cache(_MAX_CHUNKS)(self._joined)
        # In mode "whitespace" the rules define white space, not Python.
        self._has_chunks = rules.mode == "words"

    def joined(self, text: str) -> str:
        """Returns the tokens of a text joined by single spaces; "" if it has none."""
        # Long runs are cut by their position in the text, which a chunk does not have.
        if not self._has_chunks or len(text) > LONGEST_RUN:
            return self._joined(text)
        return " ".join(filter(None, map(self._joined_chunk, text.split())))

    def _joined(self, text: str) -> str:
        return " ".join(self._plain.tokenize_one(text))
