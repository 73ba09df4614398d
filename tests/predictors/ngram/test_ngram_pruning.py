"""Pruning against the relative entropy written out, and the remaining model."""

import numpy as np
import pytest

from tff_keyboard.data.vocabulary import BOS, EOS, OOV
from tff_keyboard.predictors.ngram.kneser_ney import KneserNey
from tff_keyboard.predictors.ngram.ngram_pruning import Pruner, context_counts, relative_entropies

V = 24


def chain_messages(seed, count):
    """Returns a noisy Markov chain, in which contexts of every order are informative."""
    rng = np.random.default_rng(seed)
    follower = np.random.default_rng(0).integers(4, V, size=[V, V])
    messages = []
    for _ in range(count):
        words = [3, 4]
        for _ in range(rng.integers(0, 9)):
            follower_of = follower[words[-2], words[-1]]
            words.append(follower_of if rng.random() < 0.6 else 3 + int(21 * rng.random() ** 3))
        messages.append(np.array(words[2:], int))
    return messages


MESSAGES = chain_messages(1, 150)


@pytest.fixture(scope="module")
def model():
    return KneserNey.train(MESSAGES, vocabulary_size=V, order=4)


@pytest.fixture(scope="module")
def pruner(model):
    return Pruner(model, MESSAGES)


def grams(model):
    """Returns {(context words, word): row} of each table, by walking the trie."""
    nodes = {(i,): i for i in range(model.vocabulary_size)}
    levels = []
    for table in model.tables:
        rows = {}
        for gram, node in nodes.items():
            for row in range(table.starts[node], table.starts[node + 1]):
                rows[(*gram, int(table.words[row]))] = row
        levels.append(rows)
        nodes = rows
    return levels


def distribution(model, context):
    """Returns [V] float64 after a context that may lack BOS, directly from the tables."""
    p = model.unigram.astype(np.float64)
    levels = grams(model)
    for m in range(1, len(context) + 1):
        gram = tuple(context[-m:])
        rows = levels[m - 2] if m > 1 else {(i,): i for i in range(model.vocabulary_size)}
        if gram not in rows:
            break
        table = model.tables[m - 1]
        node = rows[gram]
        span = slice(table.starts[node], table.starts[node + 1])
        p = p * float(table.gamma[node])
        p[table.words[span]] += table.discounted[span]
    return p


def perplexity(model, messages):
    logs = []
    for message in messages:
        ids = np.array([BOS, *message])
        p = model.probabilities(model.context_nodes(ids[np.newaxis])[0])
        logs.extend(np.log(p[np.arange(len(ids)), [*message, EOS]].astype(np.float64)))
    return np.exp(-np.mean(logs))


def test_context_counts_match_the_text(model):
    counts = context_counts(model, MESSAGES)
    levels = grams(model)
    read = [[BOS, *map(int, m)] for m in MESSAGES]
    for length in (1, 2, 3):
        expected = np.zeros(len(model.tables[length - 1].gamma), int)
        for words in read:
            for end in range(length, len(words) + 1):
                gram = tuple(words[end - length : end])
                expected[gram[0] if length == 1 else levels[length - 2][gram]] += 1
        np.testing.assert_array_equal(counts[length - 1], expected)


def test_entropy_matches_the_definition(model):
    """Computes Stolcke's D by its definition, a sum over all words."""
    counts = context_counts(model, MESSAGES)
    actual = relative_entropies(model, counts)
    total = sum(len(m) + 1 for m in MESSAGES)
    rng = np.random.default_rng(0)
    for level, rows in enumerate(grams(model)):
        chosen = list(rows.items())
        for index in rng.permutation(len(chosen))[:40]:
            gram, row = chosen[index]
            context, word = gram[:-1], gram[-1]
            p, q = distribution(model, context), distribution(model, context[1:])
            own = [g[-1] for g in rows if g[:-1] == context and g[-1] != word]
            without = np.zeros(V)
            without[own] = p[own]
            rest = np.ones(V, bool)
            rest[own] = False
            without[rest] = q[rest] * (1 - p[own].sum()) / q[rest].sum()
            real = p > 0
            divergence = np.sum(p[real] * np.log(p[real] / without[real]))
            table = model.tables[level]
            node = np.searchsorted(table.starts, row, side="right") - 1
            # Tables are float32, so a distribution sums to one up to 1e-7 only.
            np.testing.assert_allclose(
                actual[level][row], counts[level][node] / total * divergence, rtol=1e-3, atol=1e-8
            )


def test_pruning_nothing_changes_no_bit(model, pruner):
    for size in (pruner.max_ngrams, pruner.max_ngrams + 7):
        for table, whole in zip(pruner.prune(size).tables, model.tables, strict=True):
            for name, values in vars(whole).items():
                np.testing.assert_array_equal(getattr(table, name), values)
                assert getattr(table, name).dtype == values.dtype


def test_pruning_all_leaves_the_unigram(model, pruner):
    pruned = pruner.prune(pruner.min_ngrams)
    assert pruned.num_ngrams == [model.num_ngrams[0], 0, 0, 0]
    p = pruned.probabilities(pruned.context_nodes(np.array([[BOS, 4, 5]]))[0])
    np.testing.assert_array_equal(p, np.tile(model.unigram, [3, 1]))


@pytest.mark.parametrize("share", [0.1, 0.3, 0.6, 0.9])
def test_pruned_model_has_the_requested_size_and_sums_to_one(model, pruner, share):
    size = pruner.min_ngrams + round(share * (pruner.max_ngrams - pruner.min_ngrams))
    pruned = pruner.prune(size)
    assert sum(pruned.num_ngrams) == size
    whole, remaining = grams(model), grams(pruned)
    for level, rows in enumerate(remaining):
        assert set(rows) <= set(whole[level])
        if level:
            assert {gram[:-1] for gram in rows} <= set(remaining[level - 1])
    ids = np.random.default_rng(0).integers(OOV, V, size=[50, 6])
    ids[:, 0] = BOS
    p = pruned.probabilities(pruned.context_nodes(ids).reshape(-1, 3))
    np.testing.assert_allclose(p.sum(axis=1, dtype=np.float64), 1, rtol=1e-5)
    assert np.all(p[:, EOS:] > 0)
    expected = distribution(pruned, [BOS, 4, 7, 9][-3:])
    actual = pruned.probabilities(pruned.context_nodes(np.array([[BOS, 4, 7, 9]]))[0, -1:])[0]
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_pruning_is_better_than_random_cuts(model, pruner):
    """Every cut increases the text's perplexity, and random cuts of the same size cost more."""
    sizes = [
        round(pruner.min_ngrams + s * (pruner.max_ngrams - pruner.min_ngrams))
        for s in (1, 0.7, 0.4, 0.1)
    ]
    actual = [perplexity(pruner.prune(size), MESSAGES) for size in [*sizes, pruner.min_ngrams]]
    assert actual == sorted(actual)
    assert actual[0] < actual[-1] / 2
    random = Pruner(model, MESSAGES)
    levels = np.repeat(np.arange(3), np.diff(random._bounds))
    shuffled = np.random.default_rng(0).permutation(len(levels))
    random._ranking = shuffled[np.argsort(levels[shuffled], kind="stable")]
    assert perplexity(random.prune(sizes[2]), MESSAGES) > 1.05 * actual[2]


def test_rejects_too_few_and_a_pruned_model(pruner):
    with pytest.raises(ValueError, match="single words"):
        pruner.prune(pruner.min_ngrams - 1)
    pruned = pruner.prune((pruner.min_ngrams + pruner.max_ngrams) // 2)
    with pytest.raises(ValueError, match="already been pruned"):
        Pruner(pruned, MESSAGES)


def test_a_unigram_has_nothing_to_prune():
    unigram = KneserNey.train(MESSAGES, vocabulary_size=V, order=1)
    pruner = Pruner(unigram, MESSAGES)
    assert pruner.min_ngrams == pruner.max_ngrams
    np.testing.assert_array_equal(pruner.prune(pruner.max_ngrams).unigram, unigram.unigram)
