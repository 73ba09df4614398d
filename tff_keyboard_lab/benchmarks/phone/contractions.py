r"""Counts how often "ill", "lets", "its" and the like become contractions, rightly and wrongly.

python -m tff_keyboard_lab.benchmarks.phone.contractions --text=CLIENTS.tsv.gz \
    --text=MORE.tsv.gz --words=100000

Text is `client<TAB>text` of users. Each contraction in it is typed without its apostrophe, and each
word that is a contraction without one is typed as it is; both with the next word. The written text
counts as the intended text, although users leave apostrophes out: a change of "its" that stands for
"it's" counts as wrong, too.
"""

import argparse
import gzip
import pathlib
import random

from tff_keyboard_app.keyboard.confused_words import CONTRACTIONS
from tff_keyboard_app.keyboard.strip import AppKeyboard
from tff_keyboard_lab.benchmarks.phone.spelling import BASE
from tflite_export.runtime.hybrid_keyboard import open_keyboard


def typed_and_sent(keyboard: AppKeyboard, words: list[str], position: int) -> tuple[str, str]:
    """Returns the words up to the one after `position`: as typed, and as sent."""
    text = ""
    for word in words[: position + 2]:
        text += word
        if word == words[position] or len(text.split()) > position:
            correction = keyboard.keyboard_strip(text).correction
            text = correction.applied_to(text).rstrip() if correction is not None else text
        text += " "
    return " ".join(words[: position + 2]), text.rstrip()


def main() -> None:
    """Runs the benchmark of the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=pathlib.Path, default=BASE)
    parser.add_argument("--text", type=pathlib.Path, action="append", required=True)
    parser.add_argument("--words", type=int, default=100_000, help="number of words of each text")
    flags = parser.parse_args()
    keyboard = AppKeyboard(open_keyboard(flags.model))
    plain = CONTRACTIONS["en"]
    without = {contraction: word for word, contraction in plain.items()}
    for path in flags.text:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            lines = file.read().splitlines()
        random.Random(3).shuffle(lines)
        looked = meant = restored = words_as_meant = changed = 0
        for line in lines:
            words = line.split("\t", 1)[1].replace("\u2019", "'").split()
            looked += len(words)
            for position, word in enumerate(words[:-1]):
                low = word.lower()
                if low not in without and low not in plain:
                    continue
                if not words[position + 1].isalpha():
                    continue
                typed_words = list(words)
                typed_words[position] = word.replace("'", "")
                typed, sent = typed_and_sent(keyboard, typed_words, position)
                was_changed = (
                    sent.split()[position : position + 1] != typed.split()[position : position + 1]
                )
                if low in without:
                    meant += 1
                    restored += sent.split()[position].lower() == low
                else:
                    words_as_meant += 1
                    changed += was_changed
            if looked >= flags.words:
                break
        print(
            f"{path.parent.name}/{path.name.split('.')[0]}: {looked:,} words; contractions "
            f"{meant:,}, restored {restored:,} ({restored / max(meant, 1):.1%}); words "
            f"without apostrophe {words_as_meant:,}, changed {changed:,} ({changed / looked:.3%} "
            "of all words)"
        )


if __name__ == "__main__":
    main()
