"""Replays users of a corpus as devices that look for new words, and compares with a plain count.

    python -m tff_keyboard_lab.benchmarks.fleet.new_words by_user.tsv.gz --vocabulary=2000

The file has lines of user<TAB>message. The vocabulary has the most frequent words of all users. The
users are split at random into groups, each of which takes part in one group of the search, without
a network and without masks. A word is frequent if at least --frequent of all users typed it by the
rules of a device. Prints, for each repetition with other groups: the frequent new words, the share
of them that was found, the words that were found in all, and the words that fewer users typed than
--min_devices.
"""

import argparse
import collections
import gzip
import json
import pathlib
import random
from collections.abc import Mapping, Sequence

import numpy as np

from tff_keyboard.data.text.python_tokenizer import PythonTokenizer
from tff_keyboard.data.vocabulary import NormalisationRules, Vocabulary
from tff_keyboard_fleet.device import word_counter
from tff_keyboard_fleet.on_devices import word_search
from tff_keyboard_fleet.on_devices.word_search import GroupResult, WordSearch, alphabet_of
from tff_keyboard_fleet.wire import word_cells


def read_users(path: pathlib.Path) -> dict[str, list[str]]:
    """Returns the messages of each user, from lines of user<TAB>message."""
    users: dict[str, list[str]] = collections.defaultdict(list)
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            user, _, text = line.rstrip("\n").partition("\t")
            users[user].append(text)
    return users


def replay(
    search: WordSearch, words_of_users: Sequence[Sequence[str]], rng: np.random.Generator
) -> dict[str, float]:
    """Returns the words that a search finds, and their counts.

    Args:
      search: The rules.
      words_of_users: The new words of each user, the most frequent ones first.
      rng: Splits the users into groups, and draws the noise.
    """
    results: list[GroupResult] = []
    stddev = search.noise_multiplier * word_cells.clip_norm(search.max_cells)
    groups = np.array_split(rng.permutation(len(words_of_users)), search.groups)
    while (work := search.work_after(results)) is not None:
        total = np.zeros(work.size)
        for user in groups[len(results)]:
            total += word_cells.to_vector(
                words_of_users[user],
                work.prefixes,
                work.alphabet,
                work.letters,
                size=work.size,
                max_cells=work.max_cells,
            )
        if stddev:
            total += rng.normal(0.0, stddev, total.shape)
        results.append(search.result_of(total, work))
    return word_search.words_of(results)


def figures(
    found: Mapping[str, float], users_of: Mapping[str, int], *, frequent: float, min_devices: int
) -> dict[str, float]:
    """Returns the figures of a replay.

    Args:
      found: The words that were found.
      users_of: Number of users of each new word.
      frequent: Number of users of a frequent word.
      min_devices: The threshold.
    """
    expected = {word for word, users in users_of.items() if users >= frequent}
    return {
        "frequent_new_words": len(expected),
        "share_found": len(expected & set(found)) / max(len(expected), 1),
        "found": len(found),
        "found_below_min_devices": sum(users_of.get(word, 0) < min_devices for word in found),
    }


def main() -> None:
    """Reads the flags, replays, and prints a line of JSON for each repetition."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--vocabulary", type=int, default=2000)
    parser.add_argument("--groups", type=int, default=6)
    parser.add_argument("--letters", type=int, default=2)
    parser.add_argument("--max_cells", type=int, default=20)
    parser.add_argument("--min_devices", type=int, default=3)
    parser.add_argument("--noise_multiplier", type=float, default=0.0)
    parser.add_argument("--frequent", type=float, default=0.02, help="share of all users")
    parser.add_argument("--copies", type=int, default=1, help="devices with the text of each user")
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    users = read_users(options.file)
    tokenizer = PythonTokenizer(NormalisationRules())
    counts = collections.Counter(
        word for texts in users.values() for text in texts for word in tokenizer.tokenize_one(text)
    )
    vocabulary = Vocabulary.from_counts(counts, options.vocabulary, tokenizer.rules)
    alphabet = alphabet_of(vocabulary)
    search = WordSearch(
        alphabet=alphabet,
        letters=options.letters,
        slots=200,
        max_cells=options.max_cells,
        groups=options.groups,
        min_devices=options.min_devices,
        noise_multiplier=options.noise_multiplier,
    )
    for seed in range(options.repetitions):
        words = [
            word_counter.new_words(texts, vocabulary, alphabet, random.Random(f"{seed} {user}"))
            for user, texts in users.items()
        ] * options.copies
        users_of = collections.Counter(word for one in words for word in one)
        found = replay(search, words, np.random.default_rng(seed))
        result = figures(
            found,
            users_of,
            frequent=options.frequent * len(words),
            min_devices=options.min_devices,
        )
        facts = {"seed": seed, "devices": len(words), "threshold": round(search.threshold, 1)}
        print(json.dumps(facts | result), flush=True)


if __name__ == "__main__":
    main()
