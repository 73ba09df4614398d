"""Types words and sentences without their marks, and counts what a keyboard makes of them.

    python -m tff_keyboard_lab.benchmarks.phone.marks es pt de tr nl --half=test --out=marks.json

The words are counted in `$TFF_KEYBOARD_DATA/languages/CODE.tsv.gz` (`client<TAB>sentence`), in
small letters. Words that are the same without marks are a family: "está" and "esta". German has two
ways to leave a mark out ("fur", "fuer"), and both are typed. The counts give three kinds of words:

- Clear: at least ten times as frequent as all other words of its family together ("música").
- Looks unmarked: a word without marks that is at least as frequent as each marked word of its
  family ("papa").
- Ambiguous: all other marked words ("él", because "el" is frequent).

First, the most frequent clear words and the most frequent words that look unmarked are typed alone,
in small letters, at the start of a message. Then whole sentences are typed without any mark. Only
sentences of clients that `prepare` holds out are used, because the models were trained on the
others. A word that a space leaves as it is may still be corrected after the next word. Then the
typist sets it right, so that all other words have the right context. Each marked word of these
sentences is typed with its marks, too.

A word is wrong if a space makes another word of it. It is on the strip if a space corrects it or
the strip has it. Words belong to one half by their typed form, and sentences by their client
(`tools/halves.py`); the test half was not looked at while constants were chosen.
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
from collections.abc import Iterable, Mapping, Sequence

from tff_keyboard.data.text import casing
from tff_keyboard.host import quiet
from tff_keyboard.storage import shipped_files
from tff_keyboard_app.keyboard.languages import LANGUAGES, Language
from tff_keyboard_app.keyboard.missing_marks import plain_forms
from tff_keyboard_app.keyboard.strip import AppKeyboard
from tff_keyboard_lab.tools import halves
from tflite_export.runtime.hybrid_keyboard import open_keyboard

NAMES = {"es": "Spanish", "pt": "Portuguese", "de": "German", "tr": "Turkish", "nl": "Dutch"}
RATIO = 10  # frequency of a clear word / frequency of the rest of its family
_MIN_COUNT = 3  # occurrences of a word of a list
_WORD = re.compile(r"[^\W\d_]+")
_CLEAR, _AMBIGUOUS = "clear", "ambiguous"

ALONE_MARKED = "marked words, clear, alone"
ALONE_UNMARKED = "words that look unmarked, alone"
CLEAR = "marked words, clear, in sentences"
AMBIGUOUS = "marked words, ambiguous, in sentences"
LOOKS_UNMARKED = "words that look unmarked, in sentences"
OTHER = "other words without marks, in sentences"
WITH_MARKS = "marked words typed with their marks"
KINDS = (ALONE_MARKED, CLEAR, AMBIGUOUS, ALONE_UNMARKED, LOOKS_UNMARKED, OTHER, WITH_MARKS)


@dataclasses.dataclass
class Counts:
    """Counts of typed words.

    Attributes:
      words: All of them.
      right: Words that are the meant word after the space.
      on_strip: These, and words whose meant word is on the strip.
      wrong: Words that a space changes into another one than the meant word.
    """

    words: int = 0
    right: int = 0
    on_strip: int = 0
    wrong: int = 0


class Families:
    """Words that are the same without marks.

    Args:
      counts: Word in small letters -> occurrences.
      language: The language.
    """

    def __init__(self, counts: Mapping[str, int], language: Language):
        self._counts = counts
        self._language = language
        self.ways = range(len(plain_forms("", language)))
        # By way of typing: typed form -> words.
        self._families: list[dict[str, set[str]]] = [{} for _ in self.ways]
        for word in counts:
            for families, typed in zip(self._families, plain_forms(word, language), strict=True):
                families.setdefault(typed, set()).add(word)

    def kind(self, word: str, typed: str, way: int) -> str:
        """Returns "clear" or "ambiguous" for a marked word and its typed form."""
        family = self._families[way][typed]
        family_count = sum(self._counts[other] for other in family)
        word_count = self._counts[word]
        return _CLEAR if word_count >= RATIO * (family_count - word_count) else _AMBIGUOUS

    def looks_unmarked(self, word: str) -> bool:
        """Returns whether a word has no mark, and a twin with one that is not more frequent."""
        twins = [
            other for families in self._families for other in families.get(word, set()) - {word}
        ]
        return bool(twins) and self._counts[word] >= max(self._counts[twin] for twin in twins)

    def clear(self) -> list[tuple[str, str]]:
        """Returns (typed, meant) of the clear words, the most frequent first."""
        pairs = {
            (typed, word): count
            for way in self.ways
            for word, count in self._counts.items()
            if count >= _MIN_COUNT
            and (typed := plain_forms(word, self._language)[way]) != word
            and self.kind(word, typed, way) == _CLEAR
        }
        return sorted(pairs, key=lambda pair: (-pairs[pair], pair))

    def unmarked(self) -> list[str]:
        """Returns the words that look unmarked, the most frequent first."""
        words = [
            word
            for word, count in self._counts.items()
            if count >= _MIN_COUNT and self.looks_unmarked(word)
        ]
        return sorted(words, key=lambda word: (-self._counts[word], word))


def read_sentences(path: pathlib.Path) -> list[tuple[str, str]]:
    """Returns (client, sentence) of each line."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t", 1) for line in file]
    return [(client, text) for client, text in rows]


def counted(sentences: Iterable[str], code: str) -> dict[str, int]:
    """Returns the words of some sentences in small letters, with their numbers of occurrences."""
    counts: collections.Counter[str] = collections.Counter()
    for text in sentences:
        counts.update(_WORD.findall(casing.lower(text, code)))
    return dict(counts)


@dataclasses.dataclass
class _Outcome:
    """A typed word, after its space."""

    kind: str
    typed: str
    meant: str
    after: str  # the word in the text
    is_shown: bool  # whether the strip had the meant word


class Typist:
    """Types on a keyboard and counts, by kind of word.

    Attributes:
      counts: Kind -> its counts.
      failures: (kind, typed, meant, word in the text) -> number of words that are not right.
    """

    def __init__(self, keyboard: AppKeyboard):
        self._keyboard = keyboard
        self._code = keyboard.code
        self.counts = {kind: Counts() for kind in KINDS}
        self.failures: collections.Counter[tuple[str, str, str, str]] = collections.Counter()

    def type_word(self, kind: str, typed: str, meant: str) -> None:
        """Types a word alone, and counts what a space makes of it."""
        self._count(self._typed(kind, "", typed, meant)[0])

    def type_sentence(self, text: str, families: Families, way: int) -> None:
        """Types a sentence without its marks, and each marked word with them as well."""
        language, before = self._keyboard.language, ""  # the text as it is meant
        waiting: _Outcome | None = None  # the word before, which the next space may still correct
        text_with_waiting = ""  # the text with that word as it is
        for token in text.split():
            word = token.strip("\"'.,;:!?¿¡()«»„“”…-–")
            lead = token[: token.find(word)]
            small = casing.lower(word, self._code)
            if not (
                _WORD.fullmatch(word) and word in (small, casing.capitalised(small, self._code))
            ):
                self._count(waiting)
                waiting = None
                before += f"{token} "
                continue
            plain = plain_forms(small, language)[way]
            if plain != small:
                kind = CLEAR if families.kind(small, plain, way) == _CLEAR else AMBIGUOUS
                self._count(self._typed(WITH_MARKS, before + lead, word, word)[0])
            else:
                kind = LOOKS_UNMARKED if families.looks_unmarked(small) else OTHER
            typed = casing.capitalised(plain, self._code) if word != small else plain
            start = text_with_waiting if waiting is not None else before
            outcome, word_before = self._typed(kind, start + lead, typed, word)
            if waiting is not None:
                waiting.after = word_before
                self._count(waiting)
            before += f"{token} "
            waiting, text_with_waiting = outcome, before
            if outcome.after == plain:
                end = token[len(lead) + len(word) :]
                text_with_waiting = f"{before[: -len(token) - 1]}{lead}{typed}{end} "
            elif outcome.after != small:  # wrong, and set right at once
                self._count(outcome)
                waiting = None
        self._count(waiting)

    def _typed(self, kind: str, before: str, typed: str, meant: str) -> tuple[_Outcome, str]:
        """Types a word after a text; returns what a space makes of it, and of the word before."""
        text = before + typed
        strip = self._keyboard.keyboard_strip(text)
        after = f"{text} " if strip.correction is None else strip.correction.applied_to(text)
        words = [self._small(token) for token in after.split()]
        small = self._small(meant)
        words_on_strip = {self._small(slot.word) for slot in strip.slots if slot is not None}
        first = len(before.split(" ")) - 1  # place of the typed word
        last = " ".join(words[first:])
        return _Outcome(kind, typed, small, last, small in words_on_strip), words[
            first - 1
        ] if first else ""

    def _small(self, token: str) -> str:
        return casing.lower(token.strip("\"'.,;:!?¿¡()«»„“”…-–"), self._code)

    def _count(self, outcome: _Outcome | None) -> None:
        """Counts an outcome by kind; None counts nothing."""
        if outcome is None:
            return
        is_right = outcome.after == outcome.meant
        counts = self.counts[outcome.kind]
        counts.words += 1
        counts.right += is_right
        counts.on_strip += is_right or outcome.is_shown
        counts.wrong += not is_right and outcome.after != self._small(outcome.typed)
        if not is_right:
            self.failures[outcome.kind, outcome.typed, outcome.meant, outcome.after] += 1


def measured(
    keyboard: AppKeyboard,
    sentences: Sequence[tuple[str, str]],
    *,
    half: str,
    max_words: int,
    max_sentences: int,
    seed: int,
) -> Typist:
    """Types the words and sentences of a half."""
    code, typist = keyboard.code, Typist(keyboard)
    families = Families(counted((text for _, text in sentences), code), LANGUAGES[code])
    for typed, meant in families.clear()[:max_words]:
        if halves.is_in(typed, half):
            typist.type_word(ALONE_MARKED, typed, meant)
    for word in families.unmarked()[:max_words]:
        if halves.is_in(word, half):
            typist.type_word(ALONE_UNMARKED, word, word)
    held_out = [
        text
        for client, text in sentences
        if halves.is_held_out(client) and halves.is_in(client, half)
    ]
    rng = random.Random(seed)
    rng.shuffle(held_out)
    for text in held_out[:max_sentences]:
        typist.type_sentence(text, families, rng.choice(families.ways))
    return typist


def table(name: str, counts: Mapping[str, Counts]) -> str:
    """Returns the counts of a language as text."""
    lines = [f"{name:<42}{'words':>7}{'right':>9}{'on strip':>10}{'wrong':>8}"]
    for kind in KINDS:
        count = counts[kind]
        shares = [
            f"{100.0 * number / max(1, count.words):.1f}%"
            for number in (count.right, count.on_strip, count.wrong)
        ]
        lines.append(f"{kind:<42}{count.words:>7,}{shares[0]:>9}{shares[1]:>10}{shares[2]:>8}")
    return "\n".join(lines)


def main() -> None:
    """Runs the benchmark of the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("languages", nargs="+", choices=NAMES, metavar="CODE")
    parser.add_argument("--half", choices=halves.HALVES, default="test")
    parser.add_argument("--words", type=int, default=1_000, help="number of words of each list")
    parser.add_argument("--sentences", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--failures", type=int, default=0, help="print this many of each kind; tuning half only"
    )
    parser.add_argument("--out", type=pathlib.Path)
    flags = parser.parse_args()
    if flags.failures and flags.half != "tuning":
        parser.error("--failures needs --half=tuning: the other half is not to be looked at")
    quiet.import_tensorflow()
    folder = pathlib.Path(os.environ["TFF_KEYBOARD_DATA"]) / "languages"
    results: dict = {"half": flags.half, "seed": flags.seed, "languages": {}}
    for code in flags.languages:
        model = shipped_files.locate(shipped_files.model_folder(code) / "keyboard.tflite")
        keyboard = AppKeyboard(open_keyboard(model))
        typist = measured(
            keyboard,
            read_sentences(folder / f"{code}.tsv.gz"),
            half=flags.half,
            max_words=flags.words,
            max_sentences=flags.sentences,
            seed=flags.seed,
        )
        print(table(NAMES[code], typist.counts) + "\n", flush=True)
        results["languages"][code] = {
            kind: dataclasses.asdict(count) for kind, count in typist.counts.items()
        }
        for kind in KINDS if flags.failures else ():
            failures = [(n, *rest) for (k, *rest), n in typist.failures.items() if k == kind]
            for row in sorted(failures, reverse=True)[: flags.failures]:
                print(f"  {kind}:", *row)
    if flags.out:
        flags.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
