"""Counts in bounded memory: exact while they fit; frequent words are kept when they do not."""

import collections

import hypothesis
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard.data.text.word_counts import WordCounts

MESSAGES = st.lists(st.lists(st.sampled_from("abcdefghij"), max_size=8), max_size=30)


@hypothesis.given(messages=MESSAGES)
@examples(50)
def test_exact_while_it_fits(messages):
    counts = WordCounts(max_distinct=10)
    for message in messages:
        counts.add_client(message)
    assert counts.counts == collections.Counter(word for message in messages for word in message)
    assert counts.clients == collections.Counter(
        word for message in messages for word in set(message)
    )
    assert counts.num_clients == len(messages)
    assert counts.forgotten == 0


@hypothesis.given(messages=MESSAGES, limit=st.integers(1, 9))
@examples(50)
def test_respects_the_limit_and_never_overcounts(messages, limit):
    counts = WordCounts(max_distinct=limit)
    truth, people = collections.Counter(), collections.Counter()
    for message in messages:
        counts.add_client(message)
        truth.update(message)
        people.update(set(message))
        assert len(counts.counts) <= limit
    assert all(counts.counts[word] <= truth[word] for word in counts.counts)
    assert all(counts.clients[word] <= people[word] for word in truth)
    assert counts.clients.keys() == counts.counts.keys()


def test_frequent_words_survive_a_flood_of_rare_ones():
    counts = WordCounts(max_distinct=100)
    for index in range(10_000):
        counts.add_client(["often", f"rare{index}"])
    assert counts.counts.most_common(1) == [("often", 10_000)]
    assert counts.forgotten > 9_000
