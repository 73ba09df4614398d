"""Builds a shipped model's lexicon of right words, and lists strings that are not words.

    python -m tff_keyboard_lab.tools.respell models/base/keyboard.tflite \
        --frequencies=en.tsv --words=130000 \
        --dictionary=en_US --dictionary=en_GB --also=variants.txt

Strings are those of the frequency list (`word<TAB>frequency`, see docs/phone/export.md), of the
model's vocabulary and of its lexicon. A string is a word if hunspell accepts it in small letters,
with a capital or in capitals, if a file of `--also` has it, or if it is slang of
`slang/LANGUAGE.txt`. Any other string is a word unless it looks like a slip of one:

    max over words w of frequency(w) P(string | w) / frequency(string) >= a ratio

P is that of `spelling_index.py`. The ratio depends on the length, as short names are near many
words, and on the frequency, as a string of which there are many is what people mean.

Writes the lexicon next to the model, updates manifest and card, and writes
`misspelt/LANGUAGE.txt`.
Needs `hunspell` and its dictionaries (Debian: hunspell, hunspell-en-us, hunspell-en-gb; `--also` is
made of Debian's scowl, see docs/phone/spelling.md).
"""

import argparse
import bisect
import dataclasses
import pathlib
import re
import statistics
import subprocess
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tff_keyboard.data.text import casing, word_list
from tff_keyboard.data.vocabulary import NUM_SPECIAL, NormalisationRules
from tff_keyboard.predictors.tail_lexicon import TailLexicon, of_steps, steps_of
from tff_keyboard_app.keyboard.languages import LANGUAGES
from tff_keyboard_app.keyboard.misspellings import MISSPELT, packaged_slang
from tff_keyboard_app.keyboard.slip_costs import SlipCosts, packaged_slips, slips_by_hand
from tff_keyboard_app.keyboard.spelling_index import SpellingIndex
from tflite_export.format import manifest, tail_file
from tflite_export.format.manifest_content import CardFacts, Manifest, to_bytes
from tflite_export.runtime.hybrid_keyboard import HybridKeyboardPredictor, open_keyboard

_MEANT_FROM = 1e-7  # frequency of words that others may be slips of
_COMMON = 1e-6  # frequency from which on a string is rarely a slip
_LISTED_FROM = 1e-7  # frequency of strings that `misspelt` lists in addition to the vocabulary's
_RARE = 5e-8  # frequency below which a string that no dictionary has does not count as a word
_HEAD = [
    "# Strings that people type and no dictionary has: slips and misspellings of more frequent",
    "# words. Made by the lab's tools/respell.py of strings of wordfreq 3.1.1 (CC BY-SA 4.0) that",
    "# hunspell refuses in any case.",
]
_MIN_FREQUENCY = 1e-9  # frequency of strings that the list does not have
# Ratio from which on a string of up to 4, 6, 7, and more letters is a slip.
_UP_TO = (4, 6, 7)
_RATIOS = (30.0, 10.0, 2.0, 2.0)
_RATIOS_OF_RARE = (0.5, 0.5, 0.1, 0.03)


@dataclasses.dataclass(frozen=True)
class Dictionary:
    """Words that are known to be right.

    Attributes:
      words: In lower case.
      names: Those that are right with a capital only.
    """

    words: frozenset[str]
    names: frozenset[str]


def accepted(words: Iterable[str], dictionaries: Sequence[str]) -> set[str]:
    """Returns the words that any of the dictionaries of hunspell accepts."""
    listed = sorted(words)
    refused = set(listed)
    for name in dictionaries:
        process = subprocess.run(
            ["hunspell", "-i", "utf-8", "-d", name, "-l"],
            input="\n".join(listed),
            capture_output=True,
            text=True,
            check=True,
        )
        refused &= set(process.stdout.split())
    return set(listed) - refused


def dictionary_of(
    strings: set[str],
    dictionaries: Sequence[str],
    also: Iterable[str],
    slang: frozenset[str],
    language: str,
) -> Dictionary:
    """Returns what dictionaries and lists have of some strings in lower case."""
    listed = set(also)
    small = accepted(strings, dictionaries) | (strings & listed) | (strings & slang)
    capitals = {casing.capitalised(word, language): word for word in strings}
    capital = {capitals[w] for w in accepted(capitals, dictionaries) | (capitals.keys() & listed)}
    uppers = {word.upper(): word for word in strings}
    upper = {uppers[word] for word in accepted(uppers, dictionaries)}
    return Dictionary(frozenset(small | capital | upper), frozenset(capital - small))


def slips_among(
    strings: set[str], known_words: frozenset[str], frequencies: Mapping[str, float], language: str
) -> dict[str, bool]:
    """Returns those strings, none of them `known_words`, that look like slips of known words.

    True for those that would look so if they were frequent.
    """
    rules = LANGUAGES[language]
    slips = slips_by_hand(rules) | packaged_slips(language)
    letters = {*rules.letters, "'"}
    words = [w for w in known_words if frequencies.get(w, 0.0) >= _MEANT_FROM and set(w) <= letters]
    index = SpellingIndex(words, SlipCosts(slips, letters))
    doubts = {}
    for string in strings:
        frequency = max(frequencies.get(string, 0.0), _MIN_FREQUENCY)
        explained = max((frequencies[w] * p for w, p in index.near(string).items()), default=0.0)
        size = bisect.bisect_left(_UP_TO, len(string))
        least = (_RATIOS if frequency >= _COMMON else _RATIOS_OF_RARE)[size]
        if explained >= frequency * least:
            doubts[string] = explained >= frequency * _RATIOS[size]
    return doubts


def lexicon_of(
    words: Iterable[str], frequencies: Mapping[str, float], old: TailLexicon, size: int
) -> TailLexicon:
    """Returns the `size` likeliest words: an old one keeps its share, others share alike."""
    shares = dict(zip(old.words, old.shares.tolist(), strict=True))
    scale = statistics.median(u / frequencies[w] for w, u in shares.items() if w in frequencies)
    candidates = {w: shares.get(w, scale * frequencies.get(w, _MIN_FREQUENCY)) for w in words}
    best = sorted(sorted(candidates, key=lambda word: (-candidates[word], word))[:size])
    total = sum(candidates[word] for word in best)
    scaled = np.array([candidates[word] for word in best]) * min(1.0, 1.0 / total)
    return of_steps(best, steps_of(scaled))


def written(
    keyboard: HybridKeyboardPredictor,
    tail: TailLexicon,
    names: frozenset[str],
    list_name: str,
    sha256: str,
) -> None:
    """Writes a lexicon next to its model, and updates manifest and card."""
    paths = manifest.ExportPaths(pathlib.Path(keyboard.network.path))
    old: Manifest = keyboard.manifest
    assert old.tail is not None
    data = tail_file.encode(tail)
    facts = dataclasses.replace(
        old.tail,
        words=len(tail),
        word_list=list_name,
        word_list_sha256=sha256,
        bytes=len(data),
        sha256=manifest.sha256(data),
        capitals=tail_file.packed_capitals(tail, names),
    )
    card = paths.part("keyboard.md").read_text("utf-8")
    card = card.replace(f"{old.tail.words:,}, of", f"{facts.words:,}, of").replace(
        f"{old.tail.bytes:,} bytes", f"{facts.bytes:,} bytes"
    )
    sizes = dataclasses.replace(
        old.bytes, with_ngram=old.bytes.with_ngram - old.tail.bytes + facts.bytes
    )
    about_card = CardFacts(bytes=len(card.encode()), sha256=manifest.sha256(card.encode()))
    new = dataclasses.replace(old, tail=facts, bytes=sizes, card=about_card)
    paths.part("keyboard.tail").write_bytes(data)
    paths.part("keyboard.md").write_text(card, "utf-8")
    paths.manifest.write_bytes(to_bytes(new))
    print(f"{paths.model}: {len(tail):,} words, {len(data):,} bytes, {len(names):,} names.")


def write_misspelt(language: str, doubted: set[str], known_words: frozenset[str]) -> None:
    """Adds strings to the packaged list of a language, and removes known words from it."""
    out = MISSPELT / f"{language}.txt"
    old = out.read_text("utf-8").splitlines() if out.is_file() else _HEAD
    head = [line for line in old if line.startswith("#")]
    listed = {*old[len(head) :], *doubted} - known_words
    out.write_text("\n".join([*head, *sorted(listed)]) + "\n", "utf-8")
    print(f"{out}: {len(listed):,} strings.")


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "model",
        type=pathlib.Path,
        nargs="?",
        help="exported model; without it, only the list is written",
    )
    parser.add_argument("--frequencies", type=pathlib.Path, required=True)
    parser.add_argument("--dictionary", action="append", required=True)
    parser.add_argument("--also", type=pathlib.Path, action="append", default=[])
    parser.add_argument("--words", type=int, default=130_000, help="number of words of the lexicon")
    parser.add_argument("--language", default="en")
    flags = parser.parse_args()
    rules = NormalisationRules(language=flags.language)
    frequencies = word_list.read_word_list(flags.frequencies, rules)
    keyboard = open_keyboard(flags.model) if flags.model else None
    table: set[str] = set()
    strings = {w for w, f in frequencies.items() if keyboard is not None or f >= _LISTED_FROM}
    if keyboard is not None:
        if not isinstance(keyboard, HybridKeyboardPredictor) or keyboard.tail is None:
            raise SystemExit(
                f"{flags.model}: it has no lexicon. Export it with --ngram and --tail."
            )
        table = set(keyboard.vocabulary.words[NUM_SPECIAL:])
        strings |= {*table, *keyboard.tail.words}
    strings = {w for w in strings if re.fullmatch(r"[^\W\d_]+('[^\W\d_]+)*", w) and len(w) > 1}
    also = {word for path in flags.also for word in path.read_text("utf-8").split()}
    dictionary = dictionary_of(
        strings, flags.dictionary, also, packaged_slang(flags.language), flags.language
    )
    rare = {w for w in strings - dictionary.words if frequencies.get(w, 0.0) < _RARE} - table
    strings -= rare
    doubted = slips_among(strings - dictionary.words, dictionary.words, frequencies, flags.language)
    if isinstance(keyboard, HybridKeyboardPredictor) and keyboard.tail is not None:
        tail = lexicon_of(strings - doubted.keys() - table, frequencies, keyboard.tail, flags.words)
        sha256 = manifest.sha256(flags.frequencies.read_bytes())
        names = dictionary.names & set(tail.words)
        written(keyboard, tail, names, flags.frequencies.name, sha256)
    # Names that are rare may look like slips, and stay out of a list for all models.
    listed = {
        word
        for word, is_sure in doubted.items()
        if word in table or (is_sure and frequencies.get(word, 0.0) >= _LISTED_FROM)
    }
    write_misspelt(flags.language, listed, dictionary.words)


if __name__ == "__main__":
    main()
