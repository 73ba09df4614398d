"""The n-gram of a keyboard against the model it was made from."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import hybrid_fakes
from tests.support.examples import examples
from tests.support.ngram_fakes import messages_of, vocabulary_of
from tff_keyboard.data.vocabulary import BOS, EOS, OOV
from tff_keyboard.predictors.ngram import ngram_file
from tff_keyboard.predictors.ngram.kneser_ney import KneserNey

V = 30


def both(messages, size=V, order=5):
    model = KneserNey.train(messages, vocabulary_size=size, order=order)
    compact, _ = ngram_file.decode(ngram_file.encode(model, vocabulary_of(size)))
    return model, compact


def distributions(model, ids):
    return model.probabilities(model.context_nodes(ids).reshape(ids.size, model.order - 1))


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_matches_the_model_up_to_rounding(order):
    model, compact = both(messages_of(order, 300), order=order)
    assert compact.num_ngrams == model.num_ngrams
    assert compact.order == order
    ids = np.array([[BOS, *m[:5], *[4] * (5 - len(m[:5]))] for m in messages_of(9, 80)])
    expected, actual = distributions(model, ids), distributions(compact, ids)
    np.testing.assert_allclose(actual.sum(axis=1, dtype=np.float64), 1, rtol=1e-5)
    assert np.all(actual[:, EOS:] > 0)
    assert np.all(actual[:, :EOS] == 0)
    # Half of one of 256 steps over the range of an order is 2 % here, and the errors of orders add
    # up.
    np.testing.assert_allclose(actual[:, EOS:], expected[:, EOS:], rtol=0.08)
    assert np.abs(np.log(actual[:, EOS:] / expected[:, EOS:])).mean() < 0.01


def test_single_position_matches_the_batch():
    _, compact = both(messages_of(1, 300))
    ids = np.array([[BOS, *m] for m in messages_of(2, 60, longest=9) if len(m) == 9])
    nodes = compact.context_nodes(ids)
    assert len(ids) > 3
    assert np.all(np.any(nodes >= 0, axis=(0, 1)))
    together = compact.probabilities(nodes.reshape(-1, 4)).reshape(*ids.shape, V)
    for row, sequence in enumerate(ids):
        step_contexts = [-1] * 4
        for position in range(len(sequence)):
            contexts = compact.contexts(list(sequence[: position + 1]))
            step_contexts = compact.step(step_contexts, int(sequence[position]))
            assert contexts == step_contexts == list(nodes[row, position])
            np.testing.assert_allclose(
                compact.distribution(contexts), together[row, position], rtol=1e-6
            )


def test_a_unigram_has_no_contexts():
    _, compact = both([np.array([4, 5]), np.array([6])], order=1)
    assert compact.contexts([BOS, 4]) == compact.step([], 5) == []
    np.testing.assert_array_equal(compact.distribution([]), compact.unigram)
    hybrid = hybrid_fakes.hybrid(ngram=hybrid_fakes.ngram(1, compact=True))
    for context in (["i"], ["i", "am"]):
        assert hybrid.suggest(context)


def test_unknown_contexts_use_the_unigram():
    _, compact = both([np.array([4, 5]), np.array([6])], order=3)
    assert compact.contexts([20, 21]) == [-1, -1]
    np.testing.assert_array_equal(compact.distribution([-1, -1]), compact.unigram)
    assert compact.contexts([]) == [-1, -1]


@examples(40)
@given(data=st.data(), order=st.integers(1, 5))
def test_sums_to_one_after_any_context(data, order):
    word = st.integers(OOV, 9)
    messages = data.draw(st.lists(st.lists(word, max_size=7), min_size=1, max_size=12))
    _, compact = both([np.array(m, int) for m in messages], size=10, order=order)
    context = data.draw(st.lists(word, max_size=8))
    actual = compact.distribution(compact.contexts([BOS, *context]))
    np.testing.assert_allclose(actual.sum(dtype=np.float64), 1, rtol=1e-5)
    assert np.all(actual[EOS:] > 0)


def test_ids_of_more_than_two_bytes():
    size = 70_000
    rng = np.random.default_rng(0)
    messages = [rng.integers(OOV, size, size=6) for _ in range(40)]
    model, compact = both(messages, size=size, order=3)
    assert compact.tables[0].words.dtype == np.uint32
    ids = np.stack([np.array([BOS, *m]) for m in messages[:5]])
    targets = np.stack([np.array([*m, EOS]) for m in messages[:5]]).ravel()
    rows = np.arange(len(targets))
    np.testing.assert_allclose(
        distributions(compact, ids)[rows, targets],
        distributions(model, ids)[rows, targets],
        rtol=0.05,
    )


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_reordered_ids_give_the_same_probabilities(order):
    _, compact = both(messages_of(3, 200), order=order)
    new_ids = np.concatenate(
        [np.arange(EOS + 2), EOS + 2 + np.random.default_rng(0).permutation(V - EOS - 2)]
    )
    moved = compact.reordered(new_ids)
    for message in messages_of(4, 40):
        ids = np.array([BOS, *message], np.int64)
        expected = compact.distribution(compact.contexts(ids.tolist()))
        actual = moved.distribution(moved.contexts(new_ids[ids].tolist()))
        np.testing.assert_array_equal(actual[new_ids], expected)
