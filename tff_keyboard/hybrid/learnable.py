"""What a keyboard must not learn from its owner: numbers of cards, phones and accounts, codes.

A word out of the table with four digits or more is not learnt, and so never offered to whoever
looks over the owner's shoulder. The words of the table are everybody's.
"""

MOST_DIGITS = 3


def may_be_learnt(word: str) -> bool:
    """Whether a word out of the table may be remembered.

    >>> [may_be_learnt(word) for word in ("johann", "mp3", "7:30", "90482211", "4321", "a1b2c3d4")]
    [True, True, True, False, False, False]
    """
    return sum(map(str.isdigit, word)) <= MOST_DIGITS
