"""Compares the corrections of a keyboard with spelling programs, and checks right words.

python -m tff_keyboard_lab.benchmarks.phone.spelling --pairs=wikipedia.tsv \
    --pairs=codespell.tsv --context="it is" \
    --right=CLIENTS.tsv.gz --right=MORE.tsv.gz --frequencies=en.tsv --out=spelling.json

Lines of `--pairs` are `typed<TAB>meant`. The tuning half has the pairs whose typed word has a
SHA-256 that begins with an even byte; the test half has the others. Costs were learned, and
constants chosen, on the tuning half alone. The spelling programs see each word without its context,
because they cannot use it.

`--right` is text of clients, with lines of `client<TAB>text`, halved by the SHA-256 of the client.
A word is right if hunspell accepts it (by one of `--dictionary`, in small letters, with a capital
or in capitals). It is also right if its frequency in `--frequencies` (of wordfreq) is at least 1e-6
and no list of pairs has it as a misspelling, so names and slang are right words. A change is a
different word after the space; apostrophes and capitals do not count. aspell and hunspell are
programs (Debian: aspell, aspell-en, hunspell, hunspell-en-us, hunspell-en-gb). symspellpy is used
if it is installed.
"""

import argparse
import dataclasses
import gzip
import json
import pathlib
import random
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from tff_keyboard.data.text import casing, word_list
from tff_keyboard.storage import shipped_files
from tff_keyboard_app.keyboard import spelling
from tff_keyboard_app.keyboard.spelling import Pair
from tff_keyboard_app.keyboard.strip import AppKeyboard
from tff_keyboard_lab.tools import halves
from tff_keyboard_lab.tools.respell import dictionary_of
from tflite_export.runtime.hybrid_keyboard import open_keyboard

COMMON = 1e-6  # frequency of words that people mean
BASE = shipped_files.locate(pathlib.Path("models/base/keyboard.tflite"))
ENGLISH = ["en_US", "en_GB"]  # dictionaries of hunspell


def programs(dictionary: str) -> dict[str, list[str]]:
    """Returns the commands of the spelling programs that have a dictionary, such as "de_DE"."""
    commands = {"hunspell": ["hunspell", "-a", "-i", "utf-8", "-d", dictionary]}
    listed = subprocess.run(["aspell", "dicts"], capture_output=True, text=True, check=True)
    language = dictionary.partition("_")[0]
    for name in (dictionary, language):
        if name in listed.stdout.split():
            command = ["aspell", "-a", f"--lang={name}", "--encoding=utf-8", "--sug-mode=normal"]
            return {"aspell": command} | commands
    return commands


def of_program(command: list[str], pairs: list[Pair], language: str) -> dict[str, float]:
    """Returns the shares of pairs whose meant word a program suggests first, and among three."""
    prompts = "".join(f"^{pair.typed}\n" for pair in pairs)
    answers = subprocess.run(command, input=prompts, capture_output=True, text=True, check=True)
    blocks = answers.stdout.split("\n", 1)[1].split("\n\n")
    first = three = 0
    for pair, block in zip(pairs, blocks, strict=False):
        answer = casing.lower(block.partition(": ")[2], language)
        suggestions = answer.split(", ") if block.startswith("&") else []
        meant = casing.lower(pair.meant, language)
        first += suggestions[:1] == [meant]
        three += meant in suggestions[:3]
    return {"first": first / len(pairs), "among_three": three / len(pairs)}


def of_symspellpy(pairs: list[Pair]) -> dict[str, float] | None:
    """Returns these shares for symspellpy and its dictionary; None if it is not installed."""
    try:
        from importlib.resources import files

        from symspellpy import SymSpell, Verbosity
    except ImportError:
        return None
    checker = SymSpell(max_dictionary_edit_distance=2)
    checker.load_dictionary(
        str(files("symspellpy") / "frequency_dictionary_en_82_765.txt"), term_index=0, count_index=1
    )
    first = three = 0
    for pair in pairs:
        answers = checker.lookup(pair.typed.lower(), Verbosity.ALL, max_edit_distance=2)
        terms = [answer.term for answer in answers]
        first += terms[:1] == [pair.meant.lower()]
        three += pair.meant.lower() in terms[:3]
    return {"first": first / len(pairs), "among_three": three / len(pairs)}


def right_words(
    messages: Iterable[Iterable[str]],
    frequencies: Mapping[str, float],
    misspelt: set[str],
    *,
    dictionaries: Sequence[str],
    language: str,
) -> set[str]:
    """Returns the right words of some messages in lower case, as the module defines them."""
    words = {casing.lower(w, language) for message in messages for w in message if w.isalpha()}
    right = {w for w in words if frequencies.get(w, 0.0) >= COMMON and w not in misspelt}
    return right | dictionary_of(words, dictionaries, (), frozenset(), language).words


def read_text(path: pathlib.Path, is_read: Callable[[str], bool]) -> list[list[str]]:
    """Returns the words of each message of the clients that are read, in a fixed random order."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        lines = [line.split("\t", 1) for line in file.read().splitlines()]
    messages = [text.split() for client, text in lines if is_read(client)]
    random.Random(2).shuffle(messages)
    return messages


def changes_of_right(
    keyboard: AppKeyboard, messages: list[list[str]], right: set[str], words: int
) -> dict[str, int]:
    """Counts right words of clients, and how many of them a space changes."""
    num_checked = changed = 0
    language = keyboard.code
    for typed in messages:
        for position, word in enumerate(typed):
            if casing.lower(word, language) not in right:
                continue
            num_checked += 1
            text = " ".join(typed[: position + 1])
            correction = keyboard.keyboard_strip(text).correction
            if correction is not None:
                became = letters_of(correction.applied_to(text), language)
                changed += became != letters_of(text, language)
            if num_checked >= words:
                return {"words": num_checked, "changed": changed}
    return {"words": num_checked, "changed": changed}


def letters_of(text: str, language: str) -> str:
    """Returns a text without capitals, apostrophes and spaces around it."""
    return casing.lower(text, language).replace("'", "").strip()


def main() -> None:
    """Runs the benchmark of the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=pathlib.Path, default=BASE)
    parser.add_argument("--pairs", type=pathlib.Path, action="append", required=True)
    parser.add_argument("--half", choices=halves.HALVES, default="test")
    parser.add_argument(
        "--most", type=int, default=2_000, help="largest number of pairs of each file"
    )
    parser.add_argument("--context", default="")
    parser.add_argument("--right", type=pathlib.Path, action="append", default=[])
    parser.add_argument(
        "--right-words", type=int, default=25_000, help="number of words of each text"
    )
    parser.add_argument(
        "--frequencies", type=pathlib.Path, help="lines of word<TAB>frequency; needed by --right"
    )
    parser.add_argument(
        "--dictionary", action="append", help="of hunspell, the first also of aspell; en_US, en_GB"
    )
    parser.add_argument("--out", type=pathlib.Path)
    flags = parser.parse_args()
    dictionaries = flags.dictionary or ENGLISH
    if flags.right and not flags.frequencies:
        parser.error("--right needs --frequencies: they decide which strings are words")
    keyboard = AppKeyboard(open_keyboard(flags.model))
    rules = keyboard.predictor.vocabulary.rules
    result: dict = {"pairs": {}, "right": {}}
    misspelt = set()
    for path in flags.pairs:
        pairs = spelling.read_pairs(path)
        misspelt |= {casing.lower(pair.typed, rules.language) for pair in pairs}
        pairs = [pair for pair in pairs if halves.is_in(pair.typed, flags.half)]
        random.Random(1).shuffle(pairs)
        pairs = pairs[: flags.most]
        start = time.perf_counter()
        counts = spelling.count(keyboard, pairs, flags.context)
        result["pairs"][path.stem] = {
            "pairs": len(pairs),
            "keyboard": dataclasses.asdict(counts),
            "ms_a_word": 1e3 * (time.perf_counter() - start) / len(pairs),
            **{
                name: of_program(command, pairs, rules.language)
                for name, command in programs(dictionaries[0]).items()
            },
            "symspellpy": of_symspellpy(pairs) if rules.language == "en" else None,
        }
    if flags.right:
        frequencies = word_list.read_word_list(flags.frequencies, rules)
        for path in flags.right:
            messages = read_text(path, lambda client: halves.is_in(client, flags.half))
            right = right_words(
                messages, frequencies, misspelt, dictionaries=dictionaries, language=rules.language
            )
            changes = changes_of_right(keyboard, messages, right, flags.right_words)
            result["right"][path.parent.name] = changes
    text = json.dumps(result, indent=1)
    print(text)
    if flags.out:
        flags.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
