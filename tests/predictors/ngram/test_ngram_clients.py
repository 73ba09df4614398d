"""Users of each n-gram against a dictionary of sets, and a file without single users' n-grams."""

import collections

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.ngram_fakes import messages_of, vocabulary_of
from tff_keyboard.data.vocabulary import BOS, EOS
from tff_keyboard.predictors.ngram import ngram_spec
from tff_keyboard.predictors.ngram.kneser_ney import KneserNey
from tff_keyboard.predictors.ngram.ngram_pruning import Pruner, clients_of_ngrams

V = 30


def ngrams(model):
    """Returns the n-gram of each row of each table, as tuples of ids."""
    contexts = [(i,) for i in range(model.vocabulary_size)]
    tables = []
    for table in model.tables:
        owner = np.repeat(np.arange(len(contexts)), np.diff(table.starts))
        rows = [(*contexts[c], int(w)) for c, w in zip(owner, table.words, strict=True)]
        tables.append(rows)
        contexts = rows
    return tables


def typists(messages, owners, order):
    """Returns n-gram -> set of users."""
    actual = collections.defaultdict(set)
    for message, owner in zip(messages, owners, strict=True):
        ids = [BOS, *map(int, message), EOS]
        for n in range(2, order + 1):
            for start in range(len(ids) - n + 1):
                actual[tuple(ids[start : start + n])].add(owner)
    return actual


@examples(30)
@given(seed=st.integers(0, 2**32 - 1), order=st.integers(1, 5), people=st.integers(1, 6))
def test_counts_distinct_users(seed, order, people):
    messages = messages_of(seed, 40)
    owners = np.random.default_rng(seed).integers(people, size=40).tolist()
    model = KneserNey.train(messages, vocabulary_size=V, order=order)
    expected = typists(messages, owners, order)
    counts = clients_of_ngrams(model, messages, owners)
    assert len(counts) == order - 1
    for rows, count in zip(ngrams(model), counts, strict=True):
        assert count.tolist() == [len(expected[row]) for row in rows]


def test_file_lists_only_ngrams_of_several_users():
    messages = messages_of(3, 200)
    owners = [i % 9 for i in range(200)]
    expected = typists(messages, owners, 5)
    spec = ngram_spec.NGramSpec(num_bytes=10**6)
    whole, _ = ngram_spec.train(spec, messages, vocabulary_of(V))
    shared, _ = ngram_spec.train(spec, messages, vocabulary_of(V), owners=owners, min_clients=3)
    model = KneserNey.train(messages, vocabulary_size=V, order=5)
    counts = clients_of_ngrams(model, messages, owners)
    pruned = Pruner(model, messages, [count >= 3 for count in counts]).prune(10**6)
    listed = [row for rows in ngrams(pruned) for row in rows]
    assert set(listed) == {row for row, people in expected.items() if len(people) >= 3}
    assert shared.model.num_ngrams == pruned.num_ngrams
    assert sum(whole.model.num_ngrams) == sum(model.num_ngrams) > sum(pruned.num_ngrams)
    for context in ([], [4], [4, 5]):
        words = [vocabulary_of(V).words[i] for i in context]
        assert shared.next_word(words).sum() == pytest.approx(1, abs=1e-5)


def test_requires_an_owner_for_each_message():
    messages = messages_of(1, 3)
    model = KneserNey.train(messages, vocabulary_size=V, order=2)
    with pytest.raises(ValueError, match="3 messages and 2 owners"):
        clients_of_ngrams(model, messages, [0, 1])
