"""Types thirty everyday messages, and counts how early the strip has each word.

    python -m tff_keyboard_lab.benchmarks.phone.everyday models/base/keyboard.tflite [--words]

A word counts as early if the strip, as the page shows it, offers it before its last two letters are
typed: a word of six letters after four, a word of two at once. The messages were written for this
benchmark and are in no training text. The keyboard learns nothing while they are typed.
"""

import argparse
import collections
import pathlib
from collections.abc import Iterator
from typing import NamedTuple

from tff_keyboard.host import quiet

MESSAGES = """\
Hey, how are you doing today?
Running late, I'll be there in ten minutes
Can you pick up some bread on your way home?
Happy birthday! Hope you have a wonderful day
What time are we meeting tomorrow?
I really enjoyed dinner last night, thank you
Sorry, I missed your call. What's up?
Did you watch the game on Saturday?
I'm so tired, I need more coffee
Let me know when you get home
We should go to the beach this weekend
The weather is supposed to be nice on Sunday
I love this song so much
My phone is about to die, talk later
Do you want to get pizza or Chinese food?
Mom said dinner is ready
I have a meeting at three, can we talk after?
That movie was really good, you should see it
Good luck with your interview!
I can't believe it's already November
Are you still coming to the party on Friday?
Just finished work, heading to the gym now
Could you send me the address again?
I don't know what to wear tonight
Merry Christmas to you and your family
The train is delayed again
Haha that's hilarious
Thanks for your help yesterday, I appreciate it
How was school today?
Good night, sleep well, see you in the morning
"""


class Typed(NamedTuple):
    """A word of a message.

    Attributes:
      word: The word.
      needed: Number of letters typed before the strip had it; the length of the word if it never
        did.
    """

    word: str
    needed: int

    @property
    def is_early(self) -> bool:
        """Whether its last two letters (or all, if it is shorter) need not be typed."""
        return self.needed <= max(len(self.word) - 2, 0)


def typed(keyboard, message: str) -> Iterator[Typed]:
    """Yields the words of a message in turn.

    Args:
      keyboard: A `AppKeyboard`.
      message: The message.
    """
    before = ""
    for piece in message.split(" "):
        word = piece.strip("?!,.")
        needed = len(word)
        for letters in range(len(word)):
            strip = keyboard.keyboard_strip(before + word[:letters])
            if any(slot.word.lower() == word.lower() for slot in strip.slots if slot):
                needed = letters
                break
        yield Typed(word, needed)
        before += piece + " "


def main() -> None:
    """Prints the share of early words, and each word with `--words`."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument(
        "--words", action="store_true", help="print the number of letters that each word needs"
    )
    options = parser.parse_args()
    quiet.import_tensorflow()
    from tff_keyboard_app.keyboard.strip import AppKeyboard
    from tflite_export.runtime.hybrid_keyboard import open_keyboard

    keyboard = AppKeyboard(open_keyboard(options.model))
    counts: collections.Counter[str] = collections.Counter()
    for message in MESSAGES.splitlines():
        typed_words = list(typed(keyboard, message))
        for name, value in (
            ("words", len(typed_words)),
            ("early", sum(word.is_early for word in typed_words)),
            ("at once", sum(word.needed == 0 for word in typed_words)),
            ("letters", sum(len(word.word) for word in typed_words)),
            ("typed", sum(word.needed for word in typed_words)),
        ):
            counts[name] += value
        if options.words:
            print(" ".join(f"{word.word}:{word.needed}" for word in typed_words))
    print(
        f"{len(MESSAGES.splitlines())} messages, {counts['words']} words: "
        f"{counts['early'] / counts['words']:.1%} on the strip before their last two letters, "
        f"{counts['at once'] / counts['words']:.1%} before the first; "
        f"{1 - counts['typed'] / counts['letters']:.1%} of the letters are saved."
    )


if __name__ == "__main__":
    main()
