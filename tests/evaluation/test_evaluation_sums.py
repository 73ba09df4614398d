"""Evaluation sums and ratios against plain Python; the in-process evaluator."""

import math

import numpy as np
import pytest
import tensorflow as tf

from tests import model_truth
from tests.metrics.test_recall import python_hits
from tff_keyboard.evaluation import evaluation_sums
from tff_keyboard.evaluation.evaluate_model import Evaluator
from tff_keyboard.metrics import jackknife
from tff_keyboard.models import build_model

VOCABULARY = 12


def python_results(logits, targets):
    """Every ratio and perplexity, from float64 logits [n, vocabulary], one definition a line."""
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


def test_ratios_match_python(model):
    clients = random_clients(seed=0, clients=4)
    sums = Evaluator(model.score).sums_per_client(clients)
    results = evaluation_sums.finalize(sums)

    logits, targets = [], []
    for batch in (b for batches in clients for b in batches):
        real = batch[:, 1:] != 0
        logits.append(model(batch[:, :-1]).numpy().astype(np.float64)[real])
        targets.append(batch[:, 1:][real])
    expected = python_results(np.concatenate(logits), np.concatenate(targets))
    assert set(results) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(results[name], value, rtol=1e-5, err_msg=name)

    assert list(sums) == list(evaluation_sums.SUM_DTYPES)
    assert sums["tokens"].sum() == sum(map(len, targets))
    assert sums["examples"].tolist() == [5 * len(batches) for batches in clients]
    assert all(sums[n].dtype == t.as_numpy_dtype for n, t in evaluation_sums.SUM_DTYPES.items())


def test_padding_columns_change_nothing(model):
    batch = random_clients(seed=1, clients=1)[0][0]
    evaluate = Evaluator(model.score)
    plain, wide = evaluate.sums([batch]), evaluate.sums([np.pad(batch, [(0, 0), (0, 3)])])
    for name, value in plain.items():
        np.testing.assert_allclose(wide[name], value, rtol=1e-6, err_msg=name)


def test_intervals_are_jackknife_intervals(model):
    sums = Evaluator(model.score).sums_per_client(random_clients(seed=2, clients=6))
    results, values = evaluation_sums.intervals(sums), evaluation_sums.finalize(sums)
    words = sums["tokens"] - sums["eos_tokens"] - sums["oov_tokens"]
    assert results["recall_at_3_words"] == jackknife.ratio_interval(sums["hits_at_3"], words)
    nats = results["nats_per_token"]
    assert results["perplexity"].high == pytest.approx(math.exp(nats.high))
    assert set(results) == set(values)
    for name, value in values.items():
        assert results[name].value == pytest.approx(value), name


def test_no_clients_is_nan_not_an_error():
    empty = {name: np.zeros([0]) for name in evaluation_sums.SUM_DTYPES}
    assert all(math.isnan(v) for v in evaluation_sums.finalize(empty).values())
    assert all(math.isnan(v.value) for v in evaluation_sums.intervals(empty).values())


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (np.zeros([2], np.int32), "must be"),
        (np.zeros([2, 2], np.float32), "must be"),
        (np.array([[1, 0, 5]]), "PAD on the right only"),
    ],
)
def test_evaluator_rejects(model, batch, message):
    with pytest.raises(ValueError, match=message):
        Evaluator(model.score).sums([batch])


def test_sums_of_nothing(model):
    sums = Evaluator(model.score).sums([])
    assert all(value == 0 for value in sums.values())
    logits = tf.zeros([0, VOCABULARY])
    targets = tf.zeros([0], tf.int32)
    losses = evaluation_sums.losses_of(logits, targets)
    assert int(evaluation_sums.batch_sums(logits, losses, targets, 0)["tokens"]) == 0
