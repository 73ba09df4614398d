r"""Types right words in the wrong place, and counts which of them a keyboard sets right.

    python -m tff_keyboard_lab.benchmarks.phone.confused en \
        --text=persuasion_for_good/by_user.tsv.gz --text=blogs/by_user.tsv.gz
    python -m tff_keyboard_lab.benchmarks.phone.confused de es nl pt tr --half=test

Text is `client<TAB>text`, in `$TFF_KEYBOARD_DATA`; by default `languages/CODE.tsv.gz`, of which
only clients that `prepare` holds out are read, because the models were trained on the others.
Clients belong to one half by the hash of their name (`tools/halves.py`), and so do pairs of words.

For each pair of words that the keyboard confuses (`confused/CODE.txt`), a word of the text is typed
as the other one of the pair, and then the next word, if only a space separates them. The text
before them is as it is written, and stays so. The text counts as intended.

- Corrected: the text has the intended word after the space of the next word, or at the end.
- Offered: the same, or the strip has it when the typed word, or the next one, is complete.

Then the words of the pairs are typed as they are. A change of one of them is counted. The share of
all words that are changed is estimated: for each word, its share of the changes times its
frequency in the text.
"""

import argparse
import collections
import dataclasses
import gzip
import json
import os
import pathlib
import random
import re
from collections.abc import Iterator, Mapping, Sequence

from tff_keyboard.data.text import casing
from tff_keyboard.host import quiet
from tff_keyboard.storage import shipped_files
from tff_keyboard_app.keyboard import confused_words
from tff_keyboard_app.keyboard.strip import AppKeyboard
from tff_keyboard_lab.tools import halves
from tflite_export.runtime.hybrid_keyboard import open_keyboard

CODES = ("en", "de", "es", "nl", "pt", "tr")
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")


@dataclasses.dataclass(frozen=True)
class Place:
    """A word of a text, or two with a space between them.

    Attributes:
      words: They, in small letters.
      before: The text before them.
      written: They, as they are written.
      following: A space and the next word; "" if something else follows.
    """

    words: str
    before: str
    written: str
    following: str


def confused_pairs(code: str) -> dict[str, tuple[str, ...]]:
    """Returns intended words -> the words that are typed for them, from the lists of a language."""
    typed_for: dict[str, list[str]] = {}
    for typed, meant in confused_words.packaged_lines(code):
        for word in (*typed, *meant):
            typed_for.setdefault(word, []).extend(other for other in typed if other != word)
    return {word: tuple(dict.fromkeys(words)) for word, words in typed_for.items()}


def places(text: str, code: str) -> Iterator[Place]:
    """Yields each word of a text, and each two words with a space between, in turn."""
    text = text.replace("\u2019", "'")
    matches = list(_WORD.finditer(text))
    for i, first in enumerate(matches):
        if text[: first.start()][-1:].strip():  # a mark stands in front
            continue
        for last in matches[i : i + confused_words.LONGEST]:
            if last is not first and text[first.end() : last.start()] != " ":
                break
            written = text[first.start() : last.end()]
            text_after = text[last.end() :]
            match = re.match(rf" {_WORD.pattern}(?![^\s.,!?;:)])", text_after)
            yield Place(
                casing.lower(written, code),
                text[: first.start()],
                written,
                match.group() if match else "",
            )


@dataclasses.dataclass
class Counts:
    """Counts of a text.

    Attributes:
      swapped, offered, corrected: Words that were typed as the other one of their pair.
      right, changed: Words of pairs that were typed as they are.
      changed_of_all: Estimated share of all words of the text that are changed.
    """

    swapped: int = 0
    offered: int = 0
    corrected: int = 0
    right: int = 0
    changed: int = 0
    changed_of_all: float = 0.0


class Typist:
    """Types words on a keyboard, each with the text before it and the next word."""

    def __init__(self, keyboard: AppKeyboard):
        self._keyboard = keyboard

    def typed(self, place: Place, word: str) -> tuple[str, set[str]]:
        """Types a word in the place of another one, and the next word.

        Returns:
          The text from the word on, and the words that the strip had, in small letters.
        """
        written = word
        if place.written[:1].isupper():
            written = casing.capitalised(word, self._keyboard.code)
        words_on_strip: set[str] = set()
        text = place.before + written
        for addition in ("", place.following):
            if text.endswith(" "):
                addition = addition.lstrip()
            if addition or not words_on_strip:
                text += addition
                strip = self._keyboard.keyboard_strip(text)
                words_on_strip |= {
                    self._small(slot.inserts).strip() for slot in strip.slots if slot
                }
                correction, after = strip.correction, f"{text} "
                if correction is not None:
                    after = correction.applied_to(text)
                # The typist declines a correction of the text before.
                text = after if after.startswith(place.before) else f"{text} "
        return self._small(text[len(place.before) :]).strip(), words_on_strip

    def _small(self, text: str) -> str:
        return casing.lower(text, self._keyboard.code)


class Benchmark:
    """Counts on a keyboard.

    Args:
      keyboard: The keyboard.
      pairs: Intended word -> words that are typed for it.

    Attributes:
      changes: (words, text before, text after) of right words that were changed.
      missed: (typed, meant, next word) of swapped words that were not corrected.
    """

    def __init__(self, keyboard: AppKeyboard, pairs: Mapping[str, tuple[str, ...]]):
        self._typist = Typist(keyboard)
        self._code = keyboard.code
        self._pairs = pairs
        self._members = pairs.keys() | {typed for words in pairs.values() for typed in words}
        self.changes: list[tuple[str, str, str]] = []
        self.missed: collections.Counter[tuple[str, str]] = collections.Counter()

    def count(self, texts: Sequence[str], most: int) -> dict[str, Counts]:
        """Types at most `most` places of each pair and word; returns half of pairs -> counts."""
        counts = {half: Counts() for half in ("tuning", "test")}
        swapped: collections.Counter[tuple[str, str]] = collections.Counter()
        right: collections.Counter[str] = collections.Counter()
        changed: collections.Counter[str] = collections.Counter()
        occurrences: collections.Counter[str] = collections.Counter()
        words = 0
        for text in texts:
            for place in places(text, self._code):
                words += " " not in place.words
                if place.words not in self._members:
                    continue
                occurrences[place.words] += 1
                for typed in self._pairs.get(place.words, ()):
                    if swapped[typed, place.words] < most:
                        swapped[typed, place.words] += 1
                        self._swap(place, typed, counts[half_of(typed, place.words)])
                if right[place.words] < most:
                    right[place.words] += 1
                    changed[place.words] += self._is_changed(place)
        for word, number in right.items():
            # A word of several pairs counts in the half of the first one.
            typed_for = [
                meant for meant, words_typed_for in self._pairs.items() if word in words_typed_for
            ]
            partners = [*self._pairs.get(word, ()), *typed_for]
            half = half_of(word, min(partners))
            counts[half].right += number
            counts[half].changed += changed[word]
            share = changed[word] / number * occurrences[word] / max(words, 1)
            counts[half].changed_of_all += share
        return counts

    def _swap(self, place: Place, typed: str, counts: Counts) -> None:
        """Types a confused word in a place, and counts if the right one is made or offered."""
        text, words_on_strip = self._typist.typed(place, typed)
        intended = casing.lower(place.words + place.following, self._code)
        is_corrected = text == intended
        counts.swapped += 1
        counts.corrected += is_corrected
        counts.offered += is_corrected or bool({place.words, intended} & words_on_strip)
        if not is_corrected:
            self.missed[typed, place.words] += 1

    def _is_changed(self, place: Place) -> bool:
        """Types the right word in a place, and notes it if the keyboard changes it."""
        text, _ = self._typist.typed(place, place.words)
        is_changed = not f"{text} ".startswith(f"{place.words} ")
        if is_changed:
            self.changes.append((place.before[-60:] + place.written, place.following, text))
        return is_changed


def half_of(word: str, other: str) -> str:
    """Returns the half of a pair, "tuning" or "test"."""
    name = ", ".join(sorted((word, other)))
    return "tuning" if halves.is_in(name, "tuning") else "test"


def read_texts(path: pathlib.Path, half: str, *, held_out: bool, seed: int) -> list[str]:
    """Returns the messages of the clients of a half, in a random order."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t", 1) for line in file]
    texts = [
        text
        for client, text in rows
        if halves.is_in(client, half) and (not held_out or halves.is_held_out(client))
    ]
    random.Random(seed).shuffle(texts)
    return texts


def table(name: str, counts: Mapping[str, Counts]) -> str:
    """Returns the counts of a text as lines."""
    lines = []
    for half, count in counts.items():
        shares = [
            f"{100.0 * number / max(1, total):.1f}%"
            for number, total in (
                (count.offered, count.swapped),
                (count.corrected, count.swapped),
            )
        ]
        lines.append(
            f"{name:<22}{half + ' pairs':<14}{count.swapped:>7,}{shares[0]:>9}{shares[1]:>9}"
            f"{count.right:>8,}{count.changed:>5} {count.changed_of_all:.4%}"
        )
    return "\n".join(lines)


def main() -> None:
    """Runs the benchmark of the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("languages", nargs="+", choices=CODES, metavar="CODE")
    parser.add_argument("--half", choices=halves.HALVES, default="test", help="of the clients")
    parser.add_argument(
        "--text", action="append", help="file in $TFF_KEYBOARD_DATA, of one language; all clients"
    )
    parser.add_argument("--messages", type=int, default=20_000, help="largest number of each text")
    parser.add_argument("--most", type=int, default=20, help="places of each pair and of each word")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--changes", action="store_true", help="print the changed right words")
    parser.add_argument("--missed", type=int, default=0, help="print this many; tuning half only")
    parser.add_argument("--out", type=pathlib.Path)
    flags = parser.parse_args()
    if flags.text and len(flags.languages) > 1:
        parser.error("--text is text of one language")
    if flags.missed and flags.half != "tuning":
        parser.error("--missed needs --half=tuning: the other half is not to be looked at")
    quiet.import_tensorflow()
    data = pathlib.Path(os.environ["TFF_KEYBOARD_DATA"])
    print(
        f"{'text':<22}{'pairs':<14}{'swapped':>7}{'offered':>9}{'made':>9}{'right':>8}"
        f"{'changed':>8} of all words"
    )
    results: dict = {"half": flags.half, "seed": flags.seed, "texts": {}}
    for code in flags.languages:
        model = shipped_files.locate(shipped_files.model_folder(code) / "keyboard.tflite")
        keyboard = AppKeyboard(open_keyboard(model))
        for name in flags.text or [f"languages/{code}.tsv.gz"]:
            texts = read_texts(data / name, flags.half, held_out=not flags.text, seed=flags.seed)
            benchmark = Benchmark(keyboard, confused_pairs(code))
            counts = benchmark.count(texts[: flags.messages], flags.most)
            print(table(name.removesuffix(".tsv.gz")[:21], counts), flush=True)
            results["texts"][name] = {
                half: dataclasses.asdict(count) for half, count in counts.items()
            }
            for before, following, after in benchmark.changes if flags.changes else ():
                print(f"  {before!r} + {following!r} -> {after!r}")
            for (typed, meant), number in benchmark.missed.most_common(flags.missed):
                print(f"  {typed} for {meant}: {number}")
    if flags.out:
        flags.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
