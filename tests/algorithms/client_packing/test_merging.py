"""The sums of packs are added in NumPy as TensorFlow adds them, if they are only added."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.algorithms.client_packing import round_form
from tff_keyboard.execution.graph_function import GraphFunction

SPECS = [tf.TensorSpec([3]), tf.TensorSpec([], tf.int64)]


def merge_of(function, specs=SPECS):
    return GraphFunction.trace(function, [*specs, *specs])


def random_sums(rng):
    return [rng.normal(size=3).astype(np.float32), np.int64(rng.integers(100))]


def test_sums_have_the_bits_of_tensorflow_and_inputs_do_not_change():
    merge = merge_of(lambda a, b, c, d: [a + c, tf.identity(b) + tf.identity(d)])
    assert merge.adds_halves()
    add = round_form._merge_function(merge)
    rng = np.random.default_rng(1)
    packs = [random_sums(rng) for _ in range(5)]
    copies = [[np.array(part) for part in pack] for pack in packs]
    total, expected = packs[0], packs[0]
    for pack in packs[1:]:
        total, expected = add(total, pack), merge(*expected, *pack)
    for one, other in zip(total, expected, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype
    for pack, copy in zip(packs, copies, strict=True):
        for one, other in zip(pack, copy, strict=True):
            np.testing.assert_array_equal(one, other)


def test_two_rounds_at_a_time_keep_their_sums():
    add = round_form._merge_function(merge_of(lambda a, b, c, d: [a + c, b + d]))
    ones = [np.ones(3, np.float32), np.int64(1)]
    first, second = add(ones, ones), add(ones, ones)
    first = add(first, ones)
    second = add(second, ones)
    assert (first[0].tolist(), second[0].tolist(), int(first[1])) == ([3.0] * 3, [3.0] * 3, 3)


@pytest.mark.parametrize(
    "merge",
    [
        lambda a, b, c, d: [tf.maximum(a, c), b + d],
        lambda a, b, c, d: [a + a, b + d],
        lambda a, b, c, d: [a + c + 1.0, b + d],
        lambda a, b, c, d: [a - c, b + d],
        lambda a, b, c, d: [a + c, b],
    ],
    ids=["maximum", "one half", "a constant", "difference", "one value"],
)
def test_other_merges_run_in_tensorflow(merge):
    function = merge_of(merge)
    assert not function.adds_halves()
    rng = np.random.default_rng(2)
    first, second = random_sums(rng), random_sums(rng)
    actual = round_form._merge_function(function)(first, second)
    for one, other in zip(actual, function(*first, *second), strict=True):
        np.testing.assert_array_equal(one, other)


def test_text_is_not_added_in_numpy():
    assert not merge_of(lambda a, b: [a + b], [tf.TensorSpec([], tf.string)]).adds_halves()


def test_packs_of_fed_avg_are_added_in_numpy(monkeypatch):
    spec = (tf.TensorSpec([None, 2]), tf.TensorSpec([None, 1]))

    def model_fn():
        layers = [tf.keras.layers.InputLayer([2]), tf.keras.layers.Dense(1)]
        loss = tf.keras.losses.MeanSquaredError()
        return tff.learning.models.from_keras_model(
            tf.keras.Sequential(layers), loss=loss, input_spec=spec
        )

    process = tff.learning.algorithms.build_weighted_fed_avg(
        model_fn, tff.learning.optimizers.build_sgdm(0.1)
    )
    kinds = []
    adds_halves = GraphFunction.adds_halves
    monkeypatch.setattr(
        GraphFunction, "adds_halves", lambda self: kinds.append(adds_halves(self)) or kinds[-1]
    )
    round_form.RoundForm(process.next)
    assert kinds == [True]
