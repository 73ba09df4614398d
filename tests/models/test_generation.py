"""Texts drawn from a model against exact probabilities in NumPy, for tiny vocabularies."""

import itertools

import numpy as np
import pytest

from tests.support.truth import model_truth
from tff_keyboard.models import build_model
from tff_keyboard.models.generation import sample_texts, text_log_probabilities

PAD, BOS, EOS, OOV = 0, 1, 2, 3
FIRST_WORD = 4
VOCABULARY = 8  # four special ids, four words


@pytest.fixture(
    name="model", scope="module", params=["cifg", pytest.param("gru", marks=pytest.mark.slow)]
)
def _model(request):
    model = build_model(
        request.param, vocabulary_size=VOCABULARY, seed=1, units=6, embedding_size=5
    )
    model_truth.randomise(model, np.random.default_rng(2))
    return model


def numpy_log_probability(model, text, num_words, allow_end):
    """Computes it from whole-sentence logits, another path than the tested one."""
    words = [w for w in text if w != PAD]
    outcomes = words + ([EOS] if allow_end and len(words) < num_words else [])
    logits = model(np.array([[BOS, *words]], np.int32)).numpy()[0].astype(np.float64)
    total = 0.0
    for place, (row, outcome) in enumerate(zip(logits, outcomes, strict=False)):
        possible = list(range(FIRST_WORD, len(row)))
        if allow_end and place > 0:
            possible.append(EOS)
        total += row[outcome] - np.log(np.exp(row[possible]).sum())
    return total


def all_texts(num_words, allow_end):
    """Returns every text that can be drawn, with PAD on the right."""
    words = range(FIRST_WORD, VOCABULARY)
    lengths = range(1, num_words + 1) if allow_end else [num_words]
    return np.array(
        [
            [*text, *[PAD] * (num_words - length)]
            for length in lengths
            for text in itertools.product(words, repeat=length)
        ],
        np.int32,
    )


@pytest.mark.parametrize("allow_end", [False, True])
def test_log_probabilities_match_numpy_and_add_up_to_one(model, allow_end):
    texts = all_texts(3, allow_end)
    log_p = text_log_probabilities(model, texts, allow_end=allow_end, batch_size=17)
    expected = [numpy_log_probability(model, text, 3, allow_end) for text in texts]
    np.testing.assert_allclose(log_p, expected, rtol=1e-5, atol=1e-5)
    # Not to 1e-15: in batches of other sizes the float32 logits of one prefix round differently.
    assert np.exp(log_p).sum() == pytest.approx(1.0, abs=1e-7)


@pytest.mark.parametrize("allow_end", [False, True])
def test_frequencies_match_probabilities(model, allow_end):
    num_texts = 4000
    possible = all_texts(2, allow_end)
    p = np.exp([numpy_log_probability(model, text, 2, allow_end) for text in possible])
    drawn = sample_texts(model, num_texts, 2, seed=5, allow_end=allow_end, batch_size=1000)
    counts = np.array([(drawn == text).all(axis=1).sum() for text in possible])
    assert counts.sum() == num_texts  # no other text was drawn
    # Pearson's statistic has mean len(p) - 1 and standard deviation sqrt(2 (len(p) - 1)).
    freedom = len(p) - 1
    statistic = np.sum((counts - num_texts * p) ** 2 / (num_texts * p))
    assert statistic < freedom + 4 * np.sqrt(2 * freedom)


def test_sampling_is_a_function_of_the_seed(model):
    first = sample_texts(model, 50, 6, seed=3)
    assert first.shape == (50, 6)
    assert first.dtype == np.int32
    np.testing.assert_array_equal(first, sample_texts(model, 50, 6, seed=3))
    np.testing.assert_array_equal(first, sample_texts(model, 90, 6, seed=3, batch_size=7)[:50])
    assert (first != sample_texts(model, 50, 6, seed=4)).any()


def test_texts_contain_only_words_and_end_if_allowed(model):
    assert (sample_texts(model, 300, 5, seed=0) >= FIRST_WORD).all()
    texts = sample_texts(model, 300, 5, seed=0, allow_end=True)
    lengths = (texts != PAD).sum(axis=1)
    assert set(lengths) >= {1, 2, 3}  # some end early, none before the first word
    for text, length in zip(texts, lengths, strict=True):
        assert (text[:length] >= FIRST_WORD).all()
        assert (text[length:] == PAD).all()


def test_deterministic_model_always_draws_its_words():
    model = build_model("gru", vocabulary_size=VOCABULARY, seed=1, units=4, embedding_size=4)
    bias = next(v for v in model.trainable_variables if "output_bias" in v.name)
    # Special ids are the likeliest of all and every word but 6 underflows.
    bias.assign([3000.0, 3000.0, 3000.0, 3000.0, -2000.0, -2000.0, 2000.0, -2000.0])
    np.testing.assert_array_equal(sample_texts(model, 20, 3, seed=1), np.full([20, 3], 6))
    log_p = text_log_probabilities(model, np.array([[6, 6, 6], [6, 7, 6]]))
    assert log_p[0] == pytest.approx(0.0, abs=1e-6)
    assert log_p[1] == pytest.approx(-4000.0, abs=10)


def test_zero_texts(model):
    assert sample_texts(model, 0, 4, seed=0).shape == (0, 4)
    assert text_log_probabilities(model, np.zeros([0, 4], np.int32)).shape == (0,)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((-1, 3, 0), "num_texts"),
        ((5, 0, 0), "num_words"),
        ((5, 3, -1), "seed"),
    ],
)
def test_sampling_refuses_arguments_out_of_range(model, arguments, name):
    with pytest.raises(ValueError, match=f"`{name}` must be >= "):
        sample_texts(model, *arguments)
    with pytest.raises(ValueError, match="`batch_size` must be >= 1, got 0"):
        sample_texts(model, 1, 1, 1, batch_size=0)


@pytest.mark.parametrize(
    ("texts", "allow_end", "message"),
    [
        ([[4, OOV]], False, "only word ids.* got 3"),
        ([[4, PAD]], False, "`allow_end`=True"),
        ([[4, VOCABULARY]], True, "got 8"),
        ([[4, EOS]], True, "got 2"),
        ([[4, PAD, 5]], True, "PAD only on the right"),
        ([[PAD, PAD]], True, "start with a word"),
        ([4, 5], False, "integers"),
        ([[4.0, 5.0]], False, "integers"),
    ],
)
def test_scoring_rejects_texts_that_cannot_be_drawn(model, texts, allow_end, message):
    with pytest.raises(ValueError, match=message):
        text_log_probabilities(model, np.array(texts), allow_end=allow_end)
