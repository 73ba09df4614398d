"""Excludes text that a keyboard must not learn: numbers of cards and accounts, codes, passwords.

Text with a digit of any script is never learnt, whether it is in the table or not, in one group or
several ("4111", "98 76 54", "hunter2", "2nd"), nor is text that is joined to a digit without white
space ("hunter_2", "hunter.2"). Numbers in the table are still suggested by the models. A password
of letters alone looks like a word, and is learnt if it is typed in a normal field: a password field
must turn learning off.
"""

import unicodedata


def may_be_learnt(text: str) -> bool:
    """Checks if a word, or the text between white space, may be remembered.

    >>> [may_be_learnt(text) for text in ("johann", "covid-19", "7:30", "hunter_2", "x²")]
    [True, False, False, False, False]
    """
    has_digit = any(unicodedata.category(character)[0] == "N" for character in text)
    return not has_digit and not all(unicodedata.numeric(c, None) is not None for c in text)
