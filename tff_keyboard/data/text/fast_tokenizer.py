"""A fast `PythonTokenizer` for `prepare`: what lies between blanks is cut once and remembered.

No token of the rules holds white space, and neither normal forms nor lower case look across it, so
the tokens of a message are those of its chunks between white space. People type the same chunks
again and again: most cost one look-up. `tests/data/text/test_text.py` holds this to the plain
tokeniser on any string.
"""

import functools

from tff_keyboard.data.text.python_tokenizer import LONGEST_RUN, PythonTokenizer
from tff_keyboard.data.vocabulary import NormalisationRules

_MOST_CHUNKS = 300_000  # about 70 MB


class FastTokenizer:
    """Cuts texts into tokens; equal to `PythonTokenizer` on every input.

    >>> FastTokenizer(NormalisationRules()).joined("Haha see u @ 7:30!")
    'haha see u 7:30'
    """

    def __init__(self, rules: NormalisationRules):
        self.rules = rules
        self._plain = PythonTokenizer(rules)
        self._joined_chunk = functools.lru_cache(_MOST_CHUNKS)(self._joined)
        # In mode "whitespace" the rules, not Python, say what a blank is.
        self._has_chunks = rules.mode == "words"

    def joined(self, text: str) -> str:
        """Tokens of a text with one space between them; "" if it has none."""
        # Long runs are cut by place, which a chunk does not know.
        if not self._has_chunks or len(text) > LONGEST_RUN:
            return self._joined(text)
        return " ".join(filter(None, map(self._joined_chunk, text.split())))

    def _joined(self, text: str) -> str:
        return " ".join(self._plain.tokenize_one(text))
