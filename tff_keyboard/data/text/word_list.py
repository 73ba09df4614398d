"""Reads a public list of words with frequencies, such as one made with the `wordfreq` package.

A line is word<TAB>frequency, in UTF-8, plain or gzip. The frequency is any number in proportion to
the word's use.
"""

import math
import pathlib

from tff_keyboard.data.sources.lines import read_lines
from tff_keyboard.data.sources.messages import ParserState
from tff_keyboard.data.text.python_tokenizer import PythonTokenizer
from tff_keyboard.data.vocabulary import NormalisationRules
from tff_keyboard.storage.errors import DataError


def read_word_list(path: pathlib.Path, rules: NormalisationRules) -> dict[str, float]:
    """Returns word -> frequency. Skips lines that are not exactly one word under these rules.

    Raises `DataError` if the file cannot be read, or a line is invalid. The error names the line.
    """
    tokenizer = PythonTokenizer(rules)
    frequencies: dict[str, float] = {}
    for number, line in read_lines(path, ParserState()):
        word, _, number_text = line.partition("\t")
        try:
            frequency = float(number_text)
        except ValueError:
            frequency = math.nan
        if not 0 <= frequency < math.inf:
            raise DataError(f"{path}, line {number}: must be a word, a TAB and a number >= 0.")
        words = tokenizer.tokenize_one(word)
        if len(words) == 1 and (words[0] == word or rules.lowercase):
            frequencies[words[0]] = frequencies.get(words[0], 0.0) + frequency
    return frequencies
