"""Dropout: the rate, the scale, and masks that depend on batch, weights and place only."""

import numpy as np
import pytest
import tensorflow as tf

from tff_keyboard.models import build_model
from tff_keyboard.models.dropout import dropout

IDS = tf.constant([[1, 7, 9, 2]])
WEIGHT = tf.constant([0.1, -0.2])


def mask(ids=IDS, weight=WEIGHT, salt=0, rate=0.3):
    return dropout(tf.ones([100, 100]), rate, ids, weight, salt=salt).numpy()


def test_rate_and_scale():
    values = mask()
    assert set(np.unique(values)) == {0.0, np.float32(1.0 / np.float32(0.7))}
    # 10^4 draws: the standard deviation of the share kept is 0.0046
    assert abs(np.mean(values > 0) - 0.7) < 0.02


def test_mask_is_repeated_and_moves_with_batch_weight_and_place():
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
