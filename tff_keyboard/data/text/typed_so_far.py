"""Text with a cursor at its end, as a keyboard takes it: finished words and the one begun."""

from tff_keyboard.data.text.python_tokenizer import PythonTokenizer

_LETTER = "x"  # joins the word being typed, and is taken away again


def context_and_prefix(tokenizer: PythonTokenizer, typed: str) -> tuple[list[str], str]:
    """The finished words, and the normalised start of the unfinished one ("" behind a space).

    >>> from tff_keyboard.data.vocabulary import NormalisationRules
    >>> tokenizer = PythonTokenizer(NormalisationRules())
    >>> context_and_prefix(tokenizer, "See you to"), context_and_prefix(tokenizer, "See you ")
    ((['see', 'you'], 'to'), (['see', 'you'], ''))
    """
    words = tokenizer.tokenize_one(typed + _LETTER)
    return words[:-1], words[-1].removesuffix(_LETTER)
