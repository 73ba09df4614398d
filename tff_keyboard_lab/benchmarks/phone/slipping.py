"""What corrections do for a simulated typist who slips in 5 % of the words.

python -m tff_keyboard_lab.benchmarks.phone.slipping --text=CLIENTS.tsv.gz --text=MORE.tsv.gz \
    --frequencies=en.tsv --messages=2000 --out=slipping.json

Text is `client<TAB>text`; messages of clients of the test half are typed (`tools/halves.py`), the
same number of each file, at most 30 words of each. With `--held-out`, they are the clients that
`prepare` holds out with its default seed and share. Words that are right (see `spelling.py`) are
slipped in: a letter more, a letter left out, a key beside it, two letters swapped (20 % each), no
space after the word, a letter of the bottom row instead of that space, a space inside the word, a
digit above the key (5 % each). In languages with marks on letters, a letter is also typed without
its mark (20 %): "fur" for "für". The typist looks at nothing while typing a word, and deletes and
types again what a space left wrong, so that the next words have the right context.

`--pairs-out` types nothing. It writes 2,000 slips inside single words as lines of
`typed<TAB>meant`, for `spelling.py --half=all`, which compares them with spelling programs.

Errors are words that are wrong after the space. Keys are those of letters and spaces, of deleting a
wrong word and typing it again, and one of Backspace for a right word that was changed.
"""

import argparse
import collections
import json
import pathlib
import random
from collections.abc import Sequence

from tff_keyboard.data.text import casing, word_list
from tff_keyboard_app.keyboard.languages import LANGUAGES
from tff_keyboard_app.keyboard.strip import AppKeyboard
from tff_keyboard_lab.benchmarks.phone.spelling import (
    BASE,
    ENGLISH,
    letters_of,
    read_text,
    right_words,
)
from tff_keyboard_lab.tools import halves
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
_MARK = "mark left out"
_ABOVE_BAR = "cvbnm"
_MAX_WORDS = 30
_PAIRS = 2_000


def beside(letter: str, rows: Sequence[str]) -> list[str]:
    """Returns the keys left and right of a letter, and those above and below."""
    row = next(i for i, keys in enumerate(rows) if letter in keys)
    column = rows[row].index(letter)
    near = [(row, column - 1), (row, column + 1), (row - 1, column), (row - 1, column + 1)]
    near += [(row + 1, column - 1), (row + 1, column)]
    return [rows[r][c] for r, c in near if 0 <= r < len(rows) and 0 <= c < len(rows[r])]


def slipped(
    word: str, following: str, kind: str, rng: random.Random, language: str = "en"
) -> tuple[str, str]:
    """Returns the typed string for a word, and the intended text: one word, or two."""
    rows = LANGUAGES[language].keys
    position = rng.randrange(len(word))
    if kind == "letter more":
        return word[:position] + rng.choice("".join(rows)) + word[position:], word
    if kind == "left out":
        return word[:position] + word[position + 1 :], word
    if kind == "neighbouring key":
        positions = [i for i, letter in enumerate(word) if letter in "".join(rows)]
        position = rng.choice(positions) if positions else position
        near = beside(word[position], rows) if positions else [word[position]]
        return word[:position] + rng.choice(near) + word[position + 1 :], word
    if kind == _MARK:
        return without_a_mark(word, rng, language), word
    if kind == "digit":
        first = next((letter for letter in word if letter in rows[0][:10]), "")
        digit = "1234567890"[rows[0].index(first)] if first else ""
        return word.replace(first, digit, 1), word
    if kind in ("no space", "letter for space") and following:
        between = rng.choice(_ABOVE_BAR) if kind == "letter for space" else ""
        return word + between + following, f"{word} {following}"
    position = max(1, min(position, len(word) - 1))
    if kind == "space inside":
        return f"{word[:position]} {word[position:]}", word
    return word[: position - 1] + word[position] + word[position - 1] + word[position + 1 :], word


def without_a_mark(word: str, rng: random.Random, language: str) -> str:
    """Returns a word with one of its marked letters typed without the mark."""
    ways = [
        word[:position] + plain + word[position + 1 :]
        for plain, marked in LANGUAGES[language].marked.items()
        for position, letter in enumerate(word)
        if letter in marked
    ]
    return rng.choice(ways) if ways else word


def kinds_of(language: str) -> dict[str, int]:
    """Returns the kinds of slips in a language, and how often they are made."""
    return KINDS | ({_MARK: 4} if LANGUAGES[language].marked else {})


def after_spaces(keyboard: AppKeyboard, before: str, typed: str) -> str:
    """Returns the text after `typed` and a space, corrections of each space made."""
    text = before
    for piece in typed.split():
        text += piece
        correction = keyboard.keyboard_strip(text).correction
        text = correction.applied_to(text) if correction is not None else f"{text} "
    return text


def type_messages(
    keyboard: AppKeyboard,
    messages: list[list[str]],
    right_words: set[str],
    rng: random.Random,
    language: str = "en",
) -> dict[str, int]:
    """Types messages with slips; returns counts of keys, of right words, and of slips by kind.

    The typist sees a wrong word at once, deletes it and types it again. `right_words` are the right
    words of the language, the only ones that slip.
    """
    counts: collections.Counter[str] = collections.Counter()
    letters = set(LANGUAGES[language].letters)
    kinds = kinds_of(language)
    for message in messages:
        words, position, before = message[:_MAX_WORDS], 0, ""
        while position < len(words):
            word = words[position]
            following = words[position + 1] if position + 1 < len(words) else ""
            typed = meant = word
            is_plain = set(word) <= letters and word in right_words
            if is_plain and len(word) > 1 and rng.random() < SLIPS:
                kind = rng.choices(list(kinds), list(kinds.values()))[0]
                typed, meant = slipped(
                    word, following if following in right_words else "", kind, rng, language
                )
            counts["characters"] += len(meant) + 1
            text_after = after_spaces(keyboard, before, typed)
            is_wrong = letters_of(text_after, language) != letters_of(before + meant, language)
            keys_to_retype = len(typed) + 1 + len(meant) + 1  # keys to delete it and type it again
            counts["keys"] += len(typed) + 1
            counts["keys without corrections"] += len(typed) + 1
            if typed != meant:
                counts["slips"] += 1
                counts[f"slips: {kind}"] += 1
                counts[f"mended: {kind}"] += not is_wrong
                counts["mended"] += not is_wrong
                counts["keys"] += keys_to_retype * is_wrong
                counts["keys without corrections"] += keys_to_retype
            elif is_plain or casing.lower(word, language) in right_words:
                counts["right words"] += 1
                counts["right words changed"] += is_wrong
                counts["keys"] += is_wrong
            before += f"{meant} "
            position += len(meant.split())
    return dict(counts)


def slip_pairs(
    words: list[str], rng: random.Random, language: str, max_pairs: int
) -> list[tuple[str, str]]:
    """Returns up to `max_pairs` distinct (typed, meant) pairs of slips inside single words."""
    kinds = {kind: share for kind, share in kinds_of(language).items() if "space" not in kind}
    pairs: dict[tuple[str, str], None] = {}
    for word in words:
        kind = rng.choices(list(kinds), list(kinds.values()))[0]
        typed, meant = slipped(word, "", kind, rng, language)
        if typed != meant:
            pairs[typed, meant] = None
        if len(pairs) == max_pairs:
            break
    return list(pairs)


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
    parser.add_argument("--dictionary", action="append", help="of hunspell; en_US and en_GB")
    parser.add_argument("--pairs-out", type=pathlib.Path, help="see above")
    parser.add_argument("--held-out", action="store_true", help="see above")
    parser.add_argument("--out", type=pathlib.Path)
    flags = parser.parse_args()
    keyboard = AppKeyboard(open_keyboard(flags.model))
    rules = keyboard.predictor.vocabulary.rules
    frequencies = word_list.read_word_list(flags.frequencies, rules)
    is_read = halves.is_held_out if flags.held_out else lambda client: halves.is_in(client, "test")
    messages = []
    for path in flags.text:
        messages += read_text(path, is_read)[: flags.messages // len(flags.text)]
    dictionaries = flags.dictionary or ENGLISH
    right = right_words(
        messages, frequencies, set(), dictionaries=dictionaries, language=rules.language
    )
    if flags.pairs_out:
        letters = set(LANGUAGES[rules.language].letters)
        words = [w for m in messages for w in m if len(w) > 1 and w in right and set(w) <= letters]
        pairs = slip_pairs(words, random.Random(1), rules.language, _PAIRS)
        pairs = [pair for pair in pairs if pair[0] not in right]  # a right word by chance
        flags.pairs_out.write_text("".join(f"{typed}\t{meant}\n" for typed, meant in pairs))
        return
    counts = type_messages(keyboard, messages, right, random.Random(1), rules.language)
    text = json.dumps(counts, indent=1)
    print(text)
    if flags.out:
        flags.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
