"""Detects text in scripts without spaces between words, where every clause would be one "word".

Chinese, Japanese, Thai, Lao, Burmese and Khmer text must be split by a segmenter first. The length
of the tokens shows whether it was, because words in these scripts are short and clauses are not.
"""

import re

from tff_keyboard.data.text.word_characters import ranges_class

# Name of a script -> code points, and maximum length of a usual word. Longer words exist, but
# are rare. Ranges are blocks of Unicode 12.1.
_SCRIPTS = {
    "Chinese or Japanese": ("3040-30ff 31f0-31ff 3400-4dbf 4e00-9fff f900-faff 20000-2fa1f", 8),
    "Thai": ("e00-e7f", 16),
    "Lao": ("e80-eff", 16),
    "Burmese": ("1000-109f a9e0-a9ff aa60-aa7f", 20),
    "Khmer": ("1780-17ff 19e0-19ff", 20),
}
_RUNS = {name: re.compile(f"[{ranges_class(ranges)}]+") for name, (ranges, _) in _SCRIPTS.items()}
_ANY = re.compile(f"[{ranges_class(*(ranges for ranges, _ in _SCRIPTS.values()))}]")

# Text is rejected from these shares on: letters of the script among all letters, and among them
# letters in tokens longer than a word. Segmented text has about 0.02 of the latter.
MIN_SHARE_OF_SCRIPT = 0.25
MIN_SHARE_OF_LONG_TOKENS = 0.2


class UnspacedLetters:
    """Counts of letters in such scripts, over the tokens of many messages."""

    def __init__(self) -> None:
        self._all = 0
        self._letters = dict.fromkeys(_SCRIPTS, 0)
        self._in_long_tokens = dict.fromkeys(_SCRIPTS, 0)

    def add(self, tokens: str) -> None:
        """Adds a message: tokens joined by single spaces."""
        self._all += len(tokens) - tokens.count(" ")
        if tokens.isascii() or not _ANY.search(tokens):
            return
        for name, run in _RUNS.items():
            max_letters = _SCRIPTS[name][1]
            for letters in run.findall(tokens):
                self._letters[name] += len(letters)
                self._in_long_tokens[name] += len(letters) * (len(letters) > max_letters)

    def unspaced_script(self) -> str | None:
        """Returns the name of a script whose text was not split into words; None if there is none.

        >>> letters = UnspacedLetters()
        >>> letters.add("今日はとても良い天気ですね")
        >>> letters.unspaced_script()
        'Chinese or Japanese'
        """
        for name, letters in self._letters.items():
            if (
                letters >= MIN_SHARE_OF_SCRIPT * self._all
                and self._in_long_tokens[name] >= MIN_SHARE_OF_LONG_TOKENS * letters > 0
            ):
                return name
        return None
