"""What a keyboard must not learn from its owner: numbers of cards and accounts, codes, passwords.

A word out of the table that has four digits or more, or both letters and digits, is not learnt, and
so never offered to whoever looks over the owner's shoulder. The words of the table are everybody's
("2nd", "b4"). A password of letters alone looks like any word: a field for passwords must say that
nothing of it is learnt.
"""

MOST_DIGITS = 3


def may_be_learnt(word: str) -> bool:
    """Whether a word out of the table may be remembered.

    >>> [may_be_learnt(word) for word in ("johann", "7:30", "4321", "hunter2", "covid-19")]
    [True, True, False, False, False]
    """
    digits = sum(map(str.isdigit, word))
    return digits == 0 or (digits <= MOST_DIGITS and not any(map(str.isalpha, word)))
