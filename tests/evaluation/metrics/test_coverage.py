"""How often 95 % intervals hold the truth: people drawn from a population whose ratio is known.

python -m pytest -s -m "slow and data" tests/evaluation/metrics/test_coverage.py     prints the
shares

The slow cases draw people of real corpora: half of all people are the population, and a bigram of
the other half, which says the word that most often followed, makes the hits; the rival of paired
differences are the three most frequent words.
"""

import collections
import itertools
import os
import pathlib

import numpy as np
import pytest
from scipy import stats

from tff_keyboard.data.sources import messages, tsv
from tff_keyboard.data.text.python_tokenizer import PythonTokenizer
from tff_keyboard.data.vocabulary import NormalisationRules
from tff_keyboard.evaluation.statistics.jackknife import (
    difference_interval,
    effective_number,
    ratio_interval,
)


def covered(population, people, draws):
    """Returns shares of intervals that contain the true value.

    The intervals are plain, paired, and plain with Kish's n - 1 degrees of freedom.

    Args:
      population: [clients, 3] words, hits of a model and hits of its rival.
      people: Number of clients drawn with replacement for one interval.
      draws: Number of intervals.
    """
    words, hits, others = population.T
    plain, paired = hits.sum() / words.sum(), (hits - others).sum() / words.sum()
    rng = np.random.default_rng(1)
    inside = np.zeros(3)
    for _ in range(draws):
        who = rng.integers(0, len(population), people)
        own = ratio_interval(hits[who], words[who])
        both = difference_interval(hits[who], words[who], others[who], words[who])
        kish = stats.t.ppf(0.975, max(effective_number(words[who]) - 1, 1)) * own.standard_error
        inside += (
            own.low <= plain <= own.high,
            both.low <= paired <= both.high,
            abs(own.value - plain) <= kish,
        )
    return inside / draws


def synthetic_people(slope, number=20_000):
    """Returns clients with log-normal sizes and a recall of about 1/7 that depends on log(size)."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal(number)
    words = np.maximum(1, np.round(np.exp(3 + 1.5 * z))).astype(int)
    own = -1.8 + 1.5 * slope * z + 0.3 * rng.standard_normal(number)
    rates = 1 / (1 + np.exp(-np.stack([own, own + 0.1 + 0.3 * rng.standard_normal(number)])))
    return np.stack([words, *rng.binomial(words, rates)], axis=1)


@pytest.mark.parametrize(("slope", "max_of_kish"), [(0.0, 0.97), (-0.1, 0.94)])
def test_coverage_if_recall_depends_on_size(slope, max_of_kish):
    plain, paired, kish = covered(synthetic_people(slope), people=400, draws=1000)
    assert 0.94 <= plain <= 0.975  # standard deviation of a share is 0.007
    assert 0.94 <= paired <= 0.975
    assert kish < max_of_kish  # no correction is needed if recall is independent of size


def messages_of(corpus):
    """Returns the words of every message of every client."""
    path = pathlib.Path(os.environ["TFF_KEYBOARD_DATA"], corpus, "by_user.tsv.gz")
    cut = PythonTokenizer(NormalisationRules())
    people = collections.defaultdict(list)
    for message in tsv.read_messages([path], messages.ParserState("skip")):
        people[message.user].append(cut.joined(message.text).split())
    return list(people.values())


def half_of(people, seed):
    """Returns [half of the clients, 3]: words, hits of a bigram, hits of three words."""
    order = np.random.default_rng(seed).permutation(len(people))
    after = collections.defaultdict(collections.Counter)
    counts = collections.Counter()
    for who in order[: len(people) // 2]:
        for words in people[who]:
            counts.update(words)
            for before, word in itertools.pairwise([None, *words]):
                after[before][word] += 1
    best = {before: found.most_common(1)[0][0] for before, found in after.items()}
    common = [word for word, _ in counts.most_common(3)]
    rows = []
    for who in order[len(people) // 2 :]:
        pairs = [pair for words in people[who] for pair in itertools.pairwise([None, *words])]
        hits = sum(best.get(before, common[0]) == word for before, word in pairs)
        rows.append((len(pairs), hits, sum(word in common for _, word in pairs)))
    return np.array([row for row in rows if row[0]])


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.skipif("TFF_KEYBOARD_DATA" not in os.environ, reason="TFF_KEYBOARD_DATA is not set")
@pytest.mark.parametrize(
    ("corpus", "sizes"),
    [("ubuntu_irc", (100, 1769)), ("nus_sms", (51,)), ("persuasion_for_good", (116,))],
)
def test_coverage_on_real_corpora(corpus, sizes):
    people = messages_of(corpus)
    halves = [half_of(people, seed) for seed in range(6)]
    for number in sizes:
        shares = np.mean([covered(half, number, draws=1000) for half in halves], axis=0)
        print(f"{corpus}, {number} people: plain, paired, Kish alone: {np.round(100 * shares, 1)}")
        assert 0.945 < shares[0] < 0.96  # standard deviation of a share is 0.003
        assert 0.93 < shares[1] < 0.97
