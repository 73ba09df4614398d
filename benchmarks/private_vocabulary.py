"""What a private vocabulary costs: recall of the true one, and of the next word, against epsilon.

python -m benchmarks.private_vocabulary --store=data/ubuntu_irc --size=2000

Zipf text is generated (5,000 people of 200 words each, exponent 1.05); with --store also the train
people of a client store, and what a bigram model over each vocabulary suggests to its held-out
people.
"""

import argparse
import collections
import itertools
import pathlib
from collections.abc import Iterable, Sequence

import numpy as np

from tff_keyboard.privacy.keyed_normal import keyed_normal
from tff_keyboard.privacy.private_vocabulary import BoundedCounts, plan_vocabulary

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
DELTA = 1e-8
_KEY = bytes(32)  # a measurement may repeat

People = Sequence[Sequence[str]]  # the words of each person, in order


def zipf_people(people: int, words: int, seed: int, *, vocabulary: int = 50_000) -> People:
    """Independent words of a Zipf law."""
    weights = 1 / np.arange(1, vocabulary + 1) ** 1.05
    drawn = np.random.default_rng(seed).choice(
        vocabulary, size=(people, words), p=weights / weights.sum()
    )
    return [[f"w{i}" for i in row] for row in drawn]


def by_counts(people: People, size: int) -> list[str]:
    """The most frequent words, as a store takes them without privacy."""
    counts = collections.Counter(word for words in people for word in words)
    return sorted(counts, key=lambda w: (-counts[w], w))[:size]


def private(people: People, size: int, epsilon: float, max_words: int) -> list[str]:
    """The heaviest released words."""
    counts = BoundedCounts(max_words)
    for words in people:
        counts.add_person(words)
    mechanism = plan_vocabulary(epsilon=epsilon, delta=DELTA, max_words=max_words)
    released = counts.released(mechanism, lambda n: keyed_normal(_KEY, f"{epsilon}", n))
    return sorted(released, key=lambda w: (-released[w], w))[:size]


def bigram_recall(train: People, test: People, vocabulary: Iterable[str]) -> tuple[float, float]:
    """Of a bigram model of these words on test people: top-1 recall and coverage, in percent."""
    known = set(vocabulary)
    after: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    overall: collections.Counter[str] = collections.Counter()
    for words in train:
        for last, word in itertools.pairwise(words):
            if word in known:
                overall[word] += 1
                if last in known:
                    after[last][word] += 1
    usual = overall.most_common(1)[0][0] if overall else ""
    best = {last: counts.most_common(1)[0][0] for last, counts in after.items()}
    hits = covered = total = 0
    for words in test:
        for last, word in itertools.pairwise(words):
            total += 1
            covered += word in known
            hits += best.get(last, usual) == word
    return 100 * hits / max(total, 1), 100 * covered / max(total, 1)


def main(arguments: Sequence[str] | None = None) -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--store", type=pathlib.Path)
    parser.add_argument("--size", type=int, default=2000)
    parser.add_argument("--max-words", type=int, default=100)
    parser.add_argument("--people", type=int, default=10**9)
    flags = parser.parse_args(arguments)
    corpora: dict[str, tuple[People, People]] = {"zipf": (zipf_people(5000, 200, 1), [])}
    if flags.store:
        from tff_keyboard.data.store.client_store import ClientStore

        store = ClientStore(flags.store)
        train, test = (
            [
                [w for message in store.words(population, name) for w in message]
                for name in store.client_ids(population)[:most]
            ]
            for population, most in (("train", flags.people), ("held_out", 300))
        )
        corpora[flags.store.name] = (train, test)
    for name, (people, testers) in corpora.items():
        true = by_counts(people, flags.size)
        rows: list[tuple[str, list[str]]] = [("none", true)]
        rows += [(f"{e:g}", private(people, flags.size, e, flags.max_words)) for e in EPSILONS]
        print(f"{name}: {len(people)} people, V = {flags.size}, {flags.max_words} words a person")
        for label, words in rows:
            recall = 100 * len(set(words) & set(true)) / len(true)
            line = f"| {label} | {len(words)} | {recall:.1f} |"
            if testers:
                hits, covered = bigram_recall(people, testers, words)
                line += f" {covered:.1f} | {hits:.2f} |"
            print(line, flush=True)


if __name__ == "__main__":
    main()
