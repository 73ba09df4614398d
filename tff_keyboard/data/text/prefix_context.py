"""Splits text before the cursor into finished words and the unfinished word."""

from tff_keyboard.data.text.python_tokenizer import PythonTokenizer

_LETTER = "x"  # appended to the unfinished word, and removed again


def context_and_prefix(tokenizer: PythonTokenizer, typed: str) -> tuple[list[str], str]:
    """Returns the finished words and the normalised unfinished one ("" after a space).

    >>> from tff_keyboard.data.vocabulary import NormalisationRules
    >>> tokenizer = PythonTokenizer(NormalisationRules())
    >>> context_and_prefix(tokenizer, "See you to"), context_and_prefix(tokenizer, "See you ")
    ((['see', 'you'], 'to'), (['see', 'you'], ''))
    """
    words = tokenizer.tokenize_one(typed + _LETTER)
    return words[:-1], words[-1].removesuffix(_LETTER)
