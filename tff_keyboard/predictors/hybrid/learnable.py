"""What a keyboard must not learn from its owner: numbers of cards and accounts, codes, passwords.

Nothing with a digit of any script is learnt, be it in the table or not, in one group or several
("4111", "98 76 54", "hunter2", "2nd"), nor what stands with a digit in one run without white space
("hunter_2", "hunter.2"). Numbers of the table stay what the models make of them. A password of
letters alone looks like words, and is learnt where it is typed into a normal field: a field for
passwords must say that nothing of it is learnt.
"""

import unicodedata


def may_be_learnt(text: str) -> bool:
    """Whether a word, or what stands between white space, may be remembered.

    >>> [may_be_learnt(text) for text in ("johann", "covid-19", "7:30", "hunter_2", "x²")]
    [True, False, False, False, False]
    """
    has_digit = any(unicodedata.category(character)[0] == "N" for character in text)
    return not has_digit and not all(unicodedata.numeric(c, None) is not None for c in text)
