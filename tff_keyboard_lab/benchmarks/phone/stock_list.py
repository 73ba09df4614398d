"""Makes a word list like those that keyboards come with: a language's frequent words, no bigrams.

    python -m tff_keyboard_lab.benchmarks.phone.stock_list en.tsv stock.combined

`en.tsv` has lines of word<TAB>frequency (docs/phone/export.md).
"""

import pathlib
import sys

import numpy as np

from tff_keyboard_app.aosp import combined_file
from tff_keyboard_app.aosp.combined_file import WordList

WORDS = 50_000


def main() -> None:
    source, out = map(pathlib.Path, sys.argv[1:])
    rows = [line.split("\t") for line in source.read_text().splitlines()]
    listed = sorted(
        ((float(p), word) for word, p in rows if combined_file.may_be_listed(word)), reverse=True
    )[:WORDS]
    frequencies = combined_file.frequency_of(np.array([p for p, _ in listed])).tolist()
    words = {word: f for (_, word), f in zip(listed, frequencies, strict=True)}
    out.write_bytes(WordList({"dictionary": "main:en"}, words, {}).to_bytes())


if __name__ == "__main__":
    main()
