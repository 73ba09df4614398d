"""Dropout: rate, scale, and masks that depend only on batch, weights and position."""

import numpy as np
import pytest
import tensorflow as tf

from tests.support.truth.model_truth import cifg_step, float64_weights, randomise
from tff_keyboard.data.vocabulary import SPECIAL_WORDS, NormalisationRules, Vocabulary
from tff_keyboard.models import build_model
from tff_keyboard.models.initial_weights import assign_initial_weights
from tff_keyboard.models.layers.dropout import dropout
from tff_keyboard.models.saved_model import load_model, save_model
from tff_keyboard.models.softmax_loss import softmax_loss

IDS = tf.constant([[1, 7, 9, 2]])
WEIGHT = tf.constant([0.1, -0.2])


def mask(ids=IDS, weight=WEIGHT, salt=0, rate=0.3):
    return dropout(tf.ones([100, 100]), rate, ids, weight, salt=salt).numpy()


def test_rate_and_scale():
    values = mask()
    assert set(np.unique(values)) == {0.0, np.float32(1.0 / np.float32(0.7))}
    # 10^4 draws: the standard deviation of the share kept is 0.0046
    assert abs(np.mean(values > 0) - 0.7) < 0.02


def test_mask_depends_only_on_batch_weight_and_position():
    np.testing.assert_array_equal(mask(), mask())
    for other in (
        mask(ids=tf.constant([[1, 9, 7, 2]])),  # the same words in another order
        mask(weight=tf.constant([0.1, -0.2000001])),
        mask(salt=1),
    ):
        assert 0.3 < np.mean(mask() != other) < 0.54  # independent masks differ in 0.42


def test_no_rate_changes_nothing():
    assert (mask(rate=0.0) == 1.0).all()


@pytest.mark.parametrize("name", ["gru", "lstm2"])
def test_models_drop_in_training_only(name):
    model = build_model(name, vocabulary_size=11, seed=0, units=6, embedding_size=5, dropout=0.5)
    plain = build_model(name, vocabulary_size=11, seed=0, units=6, embedding_size=5)
    training, again = model(IDS, training=True), model(IDS, training=True)
    np.testing.assert_array_equal(training, again)
    assert not np.allclose(training, model(IDS))
    np.testing.assert_array_equal(model(IDS), plain(IDS))


def cifg(**rates):
    model = build_model("cifg", vocabulary_size=11, seed=0, units=6, embedding_size=5, **rates)
    randomise(model, np.random.default_rng(1))
    return model


def numpy_cifg(model, inputs):
    """Returns hidden vectors [time, dim] of one message from its input vectors, float64."""
    weights, hidden = float64_weights(model), []
    state = tuple(np.zeros([1, size]) for size in model.state_size)
    for x in inputs:
        r, state = cifg_step(weights, x[np.newaxis], state)
        hidden.append(r[0])
    return np.array(hidden)


@pytest.mark.parametrize("embedding, output", [(0.4, 0.0), (0.0, 0.4), (0.3, 0.3)])
def test_cifg_drops_word_vectors_and_outputs_but_not_the_state(embedding, output):
    model = cifg(embedding_dropout=embedding, output_dropout=output)
    words = np.asarray(IDS[0])
    shape = [len(words), 5]

    def kept(rate, salt):
        return dropout(tf.ones(shape), rate, IDS, model.bias, salt=salt).numpy()

    inputs = float64_weights(model)[0][words] * kept(embedding, 0)
    expected = numpy_cifg(model, inputs) * kept(output, 1)
    hidden = model.hidden(IDS, training=True)[0]
    np.testing.assert_allclose(hidden, expected, rtol=1e-4, atol=1e-6)
    assert np.any(np.asarray(hidden) == 0) == (output > 0)
    plain = numpy_cifg(model, float64_weights(model)[0][words])
    np.testing.assert_allclose(model.hidden(IDS)[0], plain, rtol=1e-4, atol=1e-6)


def test_gradients_of_the_tied_table_go_through_both_masks():
    model = cifg(embedding_dropout=0.3, output_dropout=0.3)
    targets = tf.constant([[7, 9, 2, 3]])

    def loss():
        hidden, table, bias, words = model.packed_hidden_at_targets(IDS, targets, True)
        return tf.reduce_mean(softmax_loss(hidden, table, bias, words)[0])

    with tf.GradientTape() as tape:
        value = loss()
    gradient = tf.convert_to_tensor(tape.gradient(value, model.embedding)).numpy()
    step = 1e-2
    for row, column in ((7, 0), (1, 3), (5, 2)):  # an input and target, an input, neither
        values = []
        for sign in (1, -1):
            moved = model.embedding.numpy()
            moved[row, column] += sign * step
            model.embedding.assign(moved)
            values.append(loss().numpy())
            moved[row, column] -= sign * step
            model.embedding.assign(moved)
        numeric = (values[0] - values[1]) / (2 * step)
        np.testing.assert_allclose(gradient[row, column], numeric, rtol=2e-2, atol=2e-4)


def test_rates_are_not_part_of_the_architecture(tmp_path):
    vocabulary = Vocabulary((*SPECIAL_WORDS, *(f"w{i}" for i in range(7))), NormalisationRules())
    saved = cifg()
    save_model(tmp_path / "model", saved, vocabulary)
    dropping = cifg(output_dropout=0.5)
    assign_initial_weights(dropping, tmp_path / "model", vocabulary)
    for a, b in zip(dropping.get_weights(), saved.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    save_model(tmp_path / "dropping", dropping, vocabulary)
    assert load_model(tmp_path / "dropping")[0].options == dropping.options
    assert "output_dropout" not in saved.options


@pytest.mark.parametrize("name", ["embedding_dropout", "output_dropout"])
def test_cifg_rejects_rates_out_of_range(name):
    with pytest.raises(ValueError, match=rf"`model\.{name}` must be in \[0, 1\), got 1.0"):
        cifg(**{name: 1.0})
