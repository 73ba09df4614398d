"""Federated sums and their metrics against plain Python, one definition per line."""

import math

import numpy as np
import pytest
import tensorflow as tf

from tests.evaluation.metrics.test_recall import python_hits
from tests.evaluation.reference import sums_of, sums_per_client
from tests.support.truth import model_truth
from tff_keyboard.evaluation.counts import tensorflow_sums
from tff_keyboard.evaluation.metrics.metric_table import (
    FEDERATED_METRICS,
    FEDERATED_SUMS,
    METRICS,
    computable,
)
from tff_keyboard.evaluation.statistics import jackknife
from tff_keyboard.evaluation.statistics import sums as sums_lib
from tff_keyboard.models import build_model

VOCABULARY = 12


def python_results(logits, targets):
    """Computes every federated metric from float64 logits [n, vocabulary]."""
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    nll = -log_p[np.arange(len(targets)), targets]
    eos, oov = targets == 2, targets == 3
    words = ~eos & ~oov
    argmax = np.argmax(logits, axis=1) == targets
    special, but_eos = (0, 1, 2, 3), (0, 1, 3)
    results = {}
    for k in (1, 3):
        hits = python_hits(logits, targets, k, special)
        results[f"recall_at_{k}_all"] = hits / len(targets)
        results[f"recall_at_{k}_no_eos"] = hits / np.sum(~eos)
        results[f"recall_at_{k}_words"] = hits / np.sum(words)
        results[f"recall_at_{k}_words_eos"] = python_hits(
            logits[~oov], targets[~oov], k, but_eos
        ) / np.sum(~oov)
    results["accuracy"] = argmax.mean()
    results["accuracy_no_oov"] = argmax[~oov].mean()
    results["accuracy_no_oov_or_eos"] = argmax[words].mean()
    for name, kept in {"": eos | ~eos, "_no_oov": ~oov, "_words": words}.items():
        results[f"nats_per_token{name}"] = nll[kept].mean()
        results[f"perplexity{name}"] = math.exp(nll[kept].mean())
    return results


def random_clients(seed, clients):
    rng = np.random.default_rng(seed)
    return [
        [
            model_truth.random_batch(rng, batch=5, longest=6, vocabulary=VOCABULARY)
            for _ in range(1 + client % 2)
        ]
        for client in range(clients)
    ]


@pytest.fixture(name="model", scope="module")
def _model():
    model = build_model("cifg", vocabulary_size=VOCABULARY, seed=0, units=5, embedding_size=4)
    model_truth.randomise(model, np.random.default_rng(0), scale=1.0)
    return model


def test_hits_match_python_on_any_scores():
    """Targets of every kind; EOS and OOV are often the best, so that masks matter."""
    rng = np.random.default_rng(11)
    logits = rng.normal(size=(600, VOCABULARY)).astype(np.float32)
    logits[:, 2:4] += 1.0
    targets = rng.integers(2, VOCABULARY, len(logits))
    losses = tensorflow_sums.losses_of(tf.constant(logits), tf.constant(targets, tf.int32))
    sums = tensorflow_sums.batch_sums(
        tf.constant(logits), losses, tf.constant(targets, tf.int32), tf.constant(9, tf.int64)
    )
    special, but_eos = (0, 1, 2, 3), (0, 1, 3)
    expected = {
        f"hits_at_{k}{suffix}": python_hits(logits, targets, k, masked)
        for k in (1, 3)
        for suffix, masked in {"": special, "_eos_allowed": but_eos}.items()
    }
    assert len(set(expected.values())) == len(expected)
    assert {name: int(sums[name]) for name in expected} == expected


def test_metrics_match_python(model):
    clients = random_clients(seed=0, clients=4)
    sums = sums_per_client(model, clients)
    results = sums_lib.federated_metrics(sums)

    logits, targets = [], []
    for batch in (b for batches in clients for b in batches):
        real = batch[:, 1:] != 0
        logits.append(model(batch[:, :-1]).numpy().astype(np.float64)[real])
        targets.append(batch[:, 1:][real])
    expected = python_results(np.concatenate(logits), np.concatenate(targets))
    assert set(results) == set(expected) == set(FEDERATED_METRICS)
    for name, value in expected.items():
        np.testing.assert_allclose(results[name], value, rtol=1e-5, err_msg=name)
        np.testing.assert_allclose(
            sums_lib.metric_interval(sums, name).value, value, rtol=1e-5, err_msg=name
        )
    assert list(sums) == list(FEDERATED_SUMS)
    assert sums["tokens"].sum() == sum(map(len, targets))
    assert sums["examples"].tolist() == [5 * len(batches) for batches in clients]
    assert all(sums[n].dtype == t.as_numpy_dtype for n, t in tensorflow_sums.SUM_DTYPES.items())


def test_columns_of_metrics_jsonl_do_not_change():
    """A run of an earlier version continues with the names and the order of its start."""
    assert FEDERATED_METRICS == (
        "recall_at_1_all",
        "recall_at_3_all",
        "recall_at_1_no_eos",
        "recall_at_3_no_eos",
        "recall_at_1_words",
        "recall_at_3_words",
        "recall_at_1_words_eos",
        "recall_at_3_words_eos",
        "accuracy",
        "accuracy_no_oov",
        "accuracy_no_oov_or_eos",
        "nats_per_token",
        "nats_per_token_no_oov",
        "nats_per_token_words",
        "perplexity",
        "perplexity_no_oov",
        "perplexity_words",
    )


def test_padding_columns_change_nothing(model):
    batch = random_clients(seed=1, clients=1)[0][0]
    plain, wide = sums_of(model, [batch]), sums_of(model, [np.pad(batch, [(0, 0), (0, 3)])])
    for name, value in plain.items():
        np.testing.assert_allclose(wide[name], value, rtol=1e-6, err_msg=name)


def test_intervals_are_jackknife_intervals(model):
    sums = sums_per_client(model, random_clients(seed=2, clients=6))
    words = sums["tokens"] - sums["eos_tokens"] - sums["oov_tokens"]
    actual = sums_lib.metric_interval(sums, "recall_at_3_words")
    expected = jackknife.ratio_interval(sums["hits_at_3"], words)
    assert actual == expected._replace(low=max(expected.low, 0.0), high=min(expected.high, 1.0))
    nats = sums_lib.metric_interval(sums, "nats_per_token")
    perplexity = sums_lib.metric_interval(sums, "perplexity")
    assert perplexity.high == pytest.approx(math.exp(nats.high))
    assert perplexity.standard_error == pytest.approx(perplexity.value * nats.standard_error)


def test_interval_of_a_share_is_in_the_unit_interval():
    sums = {"oov_tokens": np.array([1, 0, 0]), "tokens": np.full(3, 10), "eos_tokens": np.zeros(3)}
    actual = sums_lib.metric_interval(sums, "oov_rate")
    assert actual.low == 0.0 < actual.value < actual.high


def test_no_clients_is_nan_not_an_error():
    empty = {name: np.zeros([0]) for name in FEDERATED_SUMS}
    assert all(math.isnan(v) for v in sums_lib.federated_metrics(empty).values())
    for name in FEDERATED_METRICS:
        assert math.isnan(sums_lib.metric_interval(empty, name).value), name


def test_a_perplexity_too_large_for_a_float_is_infinite():
    assert sums_lib.metric_value({"nll": 1e6, "tokens": 1}, "perplexity") == math.inf
    assert sums_lib.metric_value({"nll": 3.0, "tokens": 3}, "perplexity") == pytest.approx(math.e)


def test_sums_of_nothing():
    logits, targets = tf.zeros([0, VOCABULARY]), tf.zeros([0], tf.int32)
    losses = tensorflow_sums.losses_of(logits, targets)
    sums = tensorflow_sums.batch_sums(logits, losses, targets, 0)
    assert all(float(value) == 0 for value in sums.values())


def test_rows_of_the_table_are_complete():
    for name, metric in METRICS.items():
        assert metric.name == name
        assert metric.label
        assert metric.meaning
        assert metric.kind in {"percent", "perplexity", "nats", "ratio"}
        assert metric.better in {"higher", "lower", ""}
        assert metric.above
        assert metric.below
    labels = [metric.label for metric in METRICS.values()]
    assert len(set(labels)) == len(labels)


def test_words_from_the_cache_count_as_hits():
    sums = {"tokens": [12], "eos_tokens": [2], "oov_tokens": [4], "hits_at_3": [3]}
    value = sums_lib.metric_value
    assert value(sums, "recall_at_3_no_eos") == 0.3
    assert "recall_at_3_no_eos" in computable(sums)
    assert "recall_at_3_oov" not in computable(sums)
    named = {**sums, "oov_hits_at_3": [1]}
    assert value(named, "recall_at_3_no_eos") == 0.4
    assert value(named, "recall_at_3_words") == 0.5  # in-vocabulary words, as before
    assert value(named, "recall_at_3_oov") == 0.25
    assert sums_lib.metric_interval(
        {name: np.array([*values, *values]) for name, values in named.items()}, "recall_at_3_all"
    ).value == pytest.approx(4 / 12)
