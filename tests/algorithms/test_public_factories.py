"""Every public aggregator in the learning processes that TFF builds, with keywords alone."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import tff_keyboard as tk

RNG = np.random.default_rng(0)
CLIENTS = [(RNG.normal(size=(4, 3)), RNG.normal(size=(4, 1))) for _ in range(3)]
FED_AVG = tff.learning.algorithms.build_weighted_fed_avg
UNWEIGHTED = tff.learning.algorithms.build_unweighted_fed_avg
SGD = tff.learning.optimizers.build_sgdm(0.1)
FEDATT = tk.aggregators.FedAtt(norm=2)


def model_fn():
    """Somebody's Keras model: linear, the same weights at each call."""
    dense = tf.keras.layers.Dense(1, kernel_initializer="ones", input_shape=(3,))
    return tff.learning.models.from_keras_model(
        tf.keras.Sequential([dense]),
        loss=tf.keras.losses.MeanSquaredError(),
        input_spec=cohort()[0].element_spec,
    )


def cohort():
    rows = [(x.astype(np.float32), y.astype(np.float32)) for x, y in CLIENTS]
    return [
        tf.data.Dataset.from_tensor_slices(collections.OrderedDict(x=x, y=y)).batch(2)
        for x, y in rows
    ]


def steps():
    """What each client's SGD takes from (kernel, bias), by hand in float64."""
    found = []
    for x, y in CLIENTS:
        kernel, bias = np.ones([3, 1]), np.zeros(1)
        for rows in (slice(0, 2), slice(2, 4)):
            error = x[rows] @ kernel + bias - y[rows]
            kernel, bias = kernel - 0.1 * x[rows].T @ error, bias - 0.1 * error.sum(axis=0)
        found.append([np.ones([3, 1]) - kernel, -bias])
    return found


def softmax_mean(parts):
    weights = np.exp([np.linalg.norm(part) for part in parts])
    return np.average(parts, axis=0, weights=weights)


def mean(parts):
    return np.mean(parts, axis=0)


def trimmed(parts):
    return np.median(parts, axis=0)  # of three without the ends


MIDDLE, ALL, ATTENTION = trimmed, mean, softmax_mean
WEIGHTED = {
    "FedAtt": (FEDATT, ATTENTION),
    "UpdateGuard": (tk.aggregators.UpdateGuard(FEDATT), ATTENTION),
    "WeightCap": (tk.aggregators.WeightCap(tff.aggregators.MeanFactory()), ALL),
    "clipping": (tk.aggregators.clipping(1e3, FEDATT), ATTENTION),
    "zeroing": (tk.aggregators.zeroing(1e3, FEDATT), ATTENTION),
    "UploadSize": (tk.aggregators.UploadSize(FEDATT), ATTENTION),
    "CompressedUpload": (tk.aggregators.CompressedUpload(FEDATT), None),
    "ClientNoise": (tk.aggregators.ClientNoise(FEDATT, scale=1e-6), ATTENTION),
    "Median": (tk.aggregators.Median(), MIDDLE),
    "TrimmedMean": (tk.aggregators.TrimmedMean(trim_fraction=0.34), MIDDLE),
    "BoundedTrimmedMean": (tk.aggregators.BoundedTrimmedMean(attackers=0.2), None),
}
PRIVATE = {"clients_per_round": 3, "clip_norm": 1e3, "noise_multiplier": 0.0}
UNWEIGHTED_ONES = {
    "PrivateFedAtt": tk.aggregators.PrivateFedAtt(
        noise_multiplier=0.0, layer_clip_norm=1e3, attention_bound=0.0
    ),
    **{
        name: tk.aggregators.PrivateMean(mechanism=name, **PRIVATE)
        for name in ("gaussian", "gaussian_adaptive", "tree", "blt")
    },
}


def moved(process):
    output = process.next(process.initialize(), cohort())
    assert not output.metrics["finalizer"]["update_non_finite"]
    after = process.get_model_weights(output.state).trainable
    return [np.ones([3, 1]) - after[0], -np.asarray(after[1])]


def check(process, combine):
    found = moved(process)
    if combine is not None:
        expected = [combine(parts) for parts in zip(*steps(), strict=True)]
        for got, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-4)
    assert all(np.any(x) for x in found)


def test_the_lists_have_every_aggregator_but_fedmed():
    found = {*WEIGHTED, "PrivateFedAtt", "PrivateMean", "FedMed", "check_rule"}
    assert found == set(tk.SURFACE["aggregators"])


@pytest.mark.slow
@pytest.mark.parametrize("name", WEIGHTED)
def test_a_weighted_factory_in_tffs_fed_avg(name):
    factory, combine = WEIGHTED[name]
    check(FED_AVG(model_fn, SGD, model_aggregator=factory), combine)


@pytest.mark.slow
@pytest.mark.parametrize("name", UNWEIGHTED_ONES)
def test_a_private_factory_in_tffs_fed_avg(name):
    factory = UNWEIGHTED_ONES[name]
    check(UNWEIGHTED(model_fn, SGD, model_aggregator=factory), ALL)


@pytest.mark.slow
@pytest.mark.parametrize(
    "factory",
    [
        tk.aggregators.PrivateMean(mechanism="tree", **PRIVATE | {"noise_multiplier": 1e-3}),
        tk.aggregators.PrivateFedAtt(noise_multiplier=1e-3, layer_clip_norm=1e3),
    ],
)
def test_noise_of_one_key_is_one_noise(factory):
    process = UNWEIGHTED(model_fn, SGD, model_aggregator=factory)

    def noised(key):
        return moved(tk.algorithms.with_noise(process, factory, rounds=4, key=key))[0]

    one, again, other = noised(bytes(32)), noised(bytes(32)), noised(None)
    np.testing.assert_array_equal(one, again)
    assert not np.allclose(one, other, atol=1e-3)
    with pytest.raises(ValueError, match="`key` must be 32 bytes, got 3"):
        noised(b"abc")


@pytest.mark.slow
def test_rounds_with_other_sums_have_independent_noise():
    """Dropout gives other sums for the same key, state and data."""

    def with_dropout():
        layers = [tf.keras.layers.Dropout(0.5), tf.keras.layers.Dense(1, "linear", False, "zeros")]
        return tff.learning.models.from_keras_model(
            tf.keras.Sequential([tf.keras.layers.InputLayer([300]), *layers]),
            loss=tf.keras.losses.MeanSquaredError(),
            input_spec=(tf.TensorSpec([1, 300]), tf.TensorSpec([1, 1])),
        )

    factory = tk.aggregators.PrivateMean(noise_multiplier=1.0, clip_norm=1.0, clients_per_round=1)
    process = UNWEIGHTED(with_dropout, SGD, model_aggregator=factory)
    private = tk.algorithms.with_noise(process, factory, rounds=2, key=bytes(32))
    values = np.random.default_rng(1).normal(size=[1, 300]).astype(np.float32)
    client = tf.data.Dataset.from_tensors((values, np.ones([1, 1], np.float32)))

    def released(state):
        return private.get_model_weights(state).trainable[0].ravel()

    first, again = (private.next(private.initialize(), [client]).state for _ in range(2))
    assert np.std(released(first) - released(again)) == pytest.approx(2**0.5, rel=0.15)
    second, third = (private.next(first, [client]).state for _ in range(2))
    assert np.std(released(second) - released(third)) == pytest.approx(2**0.5, rel=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("name", tk.models.MODELS)
def test_our_models_in_tffs_fed_avg(name):
    sizes = {"heads": 2} if name == "transformer" else {"units": 4}
    model = tk.models.build_model_fn(name, vocabulary_size=9, seed=1, embedding_size=4, **sizes)
    process = FED_AVG(model, SGD, model_aggregator=FEDATT)
    texts = [[np.array([4, 5, 6]), np.array([7, 8])], [np.array([5, 5])]]
    sizes = {"batch_size": 2, "max_length": 5, "max_examples": 0, "epochs": 1, "seed": [0]}
    batches = [tk.data.client_batches(messages, **sizes) for messages in texts]
    data = [tk.data.batches_dataset(one) for one in batches]
    metrics = process.next(process.initialize(), data).metrics["client_work"]["train"]
    assert metrics["tokens"] == 4 + 3 + 3
    per_token = metrics["nll"] / metrics["tokens"]
    assert per_token == pytest.approx(np.log(9), rel=0.2)


def nobody(examples):
    """A client with no batch, as a phone that typed nothing sends."""
    return examples.take(0)


@pytest.mark.slow
@pytest.mark.parametrize("name", WEIGHTED)
def test_clients_without_examples(name):
    """Flower #7645 and #7693, FedML #175: a total of zero examples causes no division by zero."""
    factory, _ = WEIGHTED[name]
    if name == "WeightCap":  # TFF's own mean divides by zero unless it is told not to
        factory = tk.aggregators.WeightCap(tff.aggregators.MeanFactory(no_nan_division=True))
    process = FED_AVG(model_fn, SGD, model_aggregator=factory)
    state = process.initialize()
    before = process.get_model_weights(state).trainable
    all_empty = process.next(state, [nobody(each) for each in cohort()])
    after = process.get_model_weights(all_empty.state).trainable
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(new, old)
    first, *others = cohort()
    output = process.next(state, [nobody(first), *others])
    for weights in process.get_model_weights(output.state).trainable:
        assert np.isfinite(weights).all()
