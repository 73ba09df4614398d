"""What corrections do for a simulated typist who slips in 5 % of the words.

python -m tff_keyboard_lab.benchmarks.phone.slipping --text=CLIENTS.tsv.gz --text=MORE.tsv.gz \
    --frequencies=en.tsv --messages=2000 --out=slipping.json

Text is `client<TAB>text`; messages of clients of the test half are typed (`tools/halves.py`), the
same number of each file, at most 30 words of each. Words that are right (see `spelling.py`) are
slipped in: a letter more, a letter left out, a key beside it, two letters swapped (20 % each), no
space after the word, a letter of the bottom row instead of that space, a space inside the word, a
digit above the key (5 % each). The typist looks at nothing while typing a word, and deletes and
types again what a space left wrong, so that the next words have the right context.

Errors are words that are wrong after the space. Keys are those of letters and spaces, of deleting a
wrong word and typing it again, and one of Backspace for a right word that was changed.
"""

import argparse
import collections
import json
import pathlib
import random

from tff_keyboard.data.text import word_list
from tff_keyboard_app.keyboard.strip import StripKeyboard
from tff_keyboard_lab.benchmarks.phone.spelling import BASE, letters_of, read_text, right_words
from tflite_export.runtime.hybrid_keyboard import open_keyboard

SLIPS = 0.05  # of the right words of two letters and more
KINDS = {
    "letter more": 4,
    "left out": 4,
    "neighbouring key": 4,
    "swapped": 4,
    "no space": 1,
    "letter for space": 1,
    "space inside": 1,
    "digit": 1,
}
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_ABOVE_BAR = "cvbnm"
_MAX_WORDS = 30


def beside(letter: str) -> list[str]:
    """Returns the keys left and right of a letter, and those above and below."""
    row = next(i for i, keys in enumerate(_ROWS) if letter in keys)
    place = _ROWS[row].index(letter)
    near = [(row, place - 1), (row, place + 1), (row - 1, place), (row - 1, place + 1)]
    near += [(row + 1, place - 1), (row + 1, place)]
    return [_ROWS[r][c] for r, c in near if 0 <= r < len(_ROWS) and 0 <= c < len(_ROWS[r])]


def slipped(word: str, following: str, kind: str, rng: random.Random) -> tuple[str, str]:
    """Returns the typed string for a word, and the intended text: one word, or two."""
    place = rng.randrange(len(word))
    if kind == "letter more":
        return word[:place] + rng.choice(_LETTERS) + word[place:], word
    if kind == "left out":
        return word[:place] + word[place + 1 :], word
    if kind == "neighbouring key":
        return word[:place] + rng.choice(beside(word[place])) + word[place + 1 :], word
    if kind == "digit":
        first = next((letter for letter in word if letter in _ROWS[0]), "")
        return (
            word.replace(first, "1234567890"[_ROWS[0].index(first)], 1) if first else word
        ), word
    if kind in ("no space", "letter for space") and following:
        between = rng.choice(_ABOVE_BAR) if kind == "letter for space" else ""
        return word + between + following, f"{word} {following}"
    place = max(1, min(place, len(word) - 1))
    if kind == "space inside":
        return f"{word[:place]} {word[place:]}", word
    return word[: place - 1] + word[place] + word[place - 1] + word[place + 1 :], word


def after_spaces(keyboard: StripKeyboard, before: str, typed: str) -> str:
    """Returns the text after `typed` and a space, corrections of each space made."""
    text = before
    for piece in typed.split():
        text += piece
        made = keyboard.strip_for(text).correction
        text = made.applied_to(text) if made is not None else f"{text} "
    return text


def type_messages(
    keyboard: StripKeyboard, messages: list[list[str]], right: set[str], rng: random.Random
) -> dict[str, int]:
    """Types messages; returns counts by what became of words, and of slips by kind."""
    counts: collections.Counter[str] = collections.Counter()
    for message in messages:
        words, place, before = message[:_MAX_WORDS], 0, ""
        while place < len(words):
            word = words[place]
            following = words[place + 1] if place + 1 < len(words) else ""
            typed = meant = word
            is_plain = word.isascii() and word.islower() and word.isalpha() and word in right
            if is_plain and len(word) > 1 and rng.random() < SLIPS:
                kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
                typed, meant = slipped(word, following if following in right else "", kind, rng)
            counts["characters"] += len(meant) + 1
            made = after_spaces(keyboard, before, typed)
            wrong = letters_of(made) != letters_of(before + meant)
            again = len(typed) + 1 + len(meant) + 1  # keys to delete it and type it again
            counts["keys"] += len(typed) + 1
            counts["keys without corrections"] += len(typed) + 1
            if typed != meant:
                counts["slips"] += 1
                counts[f"slips: {kind}"] += 1
                counts[f"mended: {kind}"] += not wrong
                counts["mended"] += not wrong
                counts["keys"] += again * wrong
                counts["keys without corrections"] += again
            elif is_plain or word.lower() in right:
                counts["right words"] += 1
                counts["right words changed"] += wrong
                counts["keys"] += wrong
            before += f"{meant} "
            place += len(meant.split())
    return dict(counts)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=pathlib.Path, default=BASE)
    parser.add_argument("--text", type=pathlib.Path, action="append", required=True)
    parser.add_argument("--frequencies", type=pathlib.Path, required=True)
    parser.add_argument(
        "--messages", type=int, default=2_000, help="number of messages of all texts together"
    )
    parser.add_argument("--out", type=pathlib.Path)
    flags = parser.parse_args()
    keyboard = StripKeyboard(open_keyboard(flags.model))
    rules = keyboard.predictor.vocabulary.rules
    frequencies = word_list.read_word_list(flags.frequencies, rules)
    messages = []
    for path in flags.text:
        messages += read_text(path, "test")[: flags.messages // len(flags.text)]
    typed = {w.lower() for message in messages for w in message if w.isalpha()}
    right = right_words(typed, frequencies, set())
    text = json.dumps(type_messages(keyboard, messages, right, random.Random(1)), indent=1)
    print(text)
    if flags.out:
        flags.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
