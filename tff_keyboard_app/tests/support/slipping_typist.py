"""A person who slips in one word of twenty and types on the keyboard, message by message.

The slips are this file's own: any letter too many, a letter left out, a key beside it on the rows
of QWERTY, two letters swapped; each as likely as the others, at any place. The typist sees what a
space or Enter makes of the word: a right word that was changed is brought back with Backspace, a
slip that became a third word is typed again, and a slip that nothing mended is sent as it is.
"""

import dataclasses
import string

ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
SLIPS = 0.05  # of the words of two letters and more


def beside(letter):
    """Keys above, below, left and right, of rows shifted by half a key."""
    row = next(i for i, keys in enumerate(ROWS) if letter in keys)
    position = ROWS[row].index(letter)
    near = [(row, position - 1), (row, position + 1), (row - 1, position), (row - 1, position + 1)]
    near += [(row + 1, position - 1), (row + 1, position)]
    return [ROWS[r][c] for r, c in near if 0 <= r < 3 and 0 <= c < len(ROWS[r])]


def slipped(word, rng):
    """The word with one slip; itself where it has other letters than a to z."""
    if len(word) < 2 or not set(word) <= set(string.ascii_lowercase):
        return word
    place = int(rng.integers(len(word)))
    kind = rng.integers(4)
    if kind == 0:
        return word[:place] + string.ascii_lowercase[rng.integers(26)] + word[place:]
    if kind == 1:
        return word[:place] + word[place + 1 :]
    if kind == 2:
        return word[:place] + str(rng.choice(beside(word[place]))) + word[place + 1 :]
    place = min(place, len(word) - 2)
    return word[:place] + word[place + 1] + word[place] + word[place + 2 :]


@dataclasses.dataclass
class Typed:
    """What became of the words.

    Attributes:
      right: Words typed without a slip.
      changed: The typed words that a space or Enter changed: `(text before, word, made)`.
      slips: `(text before, typed, meant, mended)` of each slip.
    """

    right: int = 0
    changed: list = dataclasses.field(default_factory=list)
    slips: list = dataclasses.field(default_factory=list)


def correction(keyboard, before, word):
    """What a space makes of a word, None where it stays."""
    actual = keyboard.keyboard_strip(before + word).correction
    return actual and actual.word


def same(word, other):
    """Whether two words differ in capitals and apostrophes at most."""
    return word.lower().replace("'", "") == other.lower().replace("'", "")


def type_messages(keyboard, owner, session, messages, rng, *, habitual=False, mends=True):
    """Types and sends messages, which the owner learns.

    Args:
      keyboard: A `AppKeyboard`.
      owner: A `UserHistory`.
      session: A `TypingSession`.
      messages: Lists of words.
      rng: Generator of the slips.
      habitual: Whether a word is always slipped in the same way, as "teh" is.
      mends: Whether corrections are made; else all is sent as typed.

    Returns:
      A `Typed`.
    """
    result, habits = Typed(), {}
    for message in messages:
        for position, word in enumerate(message):
            typed = word
            if rng.random() < SLIPS:
                typed = slipped(word, rng)
                if habitual:
                    typed = habits.setdefault(word, typed)
            end = position == len(message) - 1
            _type_word(keyboard, session, result, word, typed, end=end, mends=mends)
        for sent in session.settled(ended=True):
            owner.learn(sent.text, sent.exempt_words, learn=sent.learn)
    return result


def _type_word(keyboard, session, result, word, typed, *, end, mends):
    before = session.text
    for character in typed:
        session.press(character)
    slot = keyboard.keyboard_strip(session.text).correction if mends else None
    made = slot.word if slot else typed
    result.right += typed == word
    if typed == word and not same(made, word):
        result.changed.append((before, word, made))
        session.press(" ", slot)
        session.backspace()
        _delete(session, session.text.endswith(" "))
        slot = None  # not corrected again
    elif typed != word:
        result.slips.append((before, typed, word, same(made, word)))
        if slot is not None and not same(made, word):
            _delete(session, len(typed))
            for character in word:
                session.press(character)
            slot = None
    if end:
        session.send(slot)
    else:
        session.press(" ", slot)


def _delete(session, count):
    for _ in range(count):
        session.backspace()
