"""Uploads as clients: the input of the aggregation, one by one and in packs."""

import collections
import functools

import numpy as np
import pytest
import tensorflow_federated as tff

from tff_keyboard.algorithms import variable_model
from tff_keyboard.algorithms.client_training import build_client_training
from tff_keyboard.algorithms.cohort_batcher import CohortBatcher
from tff_keyboard.algorithms.composition import compose_process
from tff_keyboard.algorithms.rounds.packed import PackedProcess
from tff_keyboard_fleet.on_devices import upload_work
from tff_keyboard_fleet.on_devices.upload_work import build_upload_work, element, hand_over

V, D, U = 6, 2, 3
SHAPES = [(V, D), (D, 3 * U), (D, 3 * U), (3 * U,), (U, D)]
PARAMETERS = sum(int(np.prod(shape)) for shape in SHAPES)
RNG = np.random.default_rng(0)
DELTAS = RNG.normal(size=(3, PARAMETERS)).astype(np.float32)
WEIGHTS = np.array([1.0, 2.0, 5.0], np.float32)
LOSSES = np.array([4.0, 3.0, 2.0], np.float32)


@functools.cache
def process():
    """Builds FedAvg with a plain server step: w + the weighted mean of the deltas."""
    model_fn = variable_model.build_model_fn(
        "cifg", vocabulary_size=V, seed=1, embedding_size=D, units=U
    )
    training = build_client_training(model_fn, tff.learning.optimizers.build_sgdm(0.1))
    return compose_process(
        model_fn,
        client_work=build_upload_work(training),
        server_optimizer=tff.learning.optimizers.build_sgdm(1.0),
        aggregator=tff.aggregators.MeanFactory(),
    )


@pytest.mark.parametrize("per_pack", [1, 2])
def test_a_round_adds_the_weighted_mean_of_the_deltas(per_pack):
    run = PackedProcess(process())
    state = run.initialize()
    uploads = [element(*upload) for upload in zip(DELTAS, WEIGHTS, LOSSES, strict=True)]
    output = run.next(state, hand_over(uploads, CohortBatcher(per_pack), PARAMETERS))
    before = [np.asarray(w) for w in run.get_model_weights(state).trainable]
    after = [np.asarray(w) for w in run.get_model_weights(output.state).trainable]
    assert [w.shape for w in after] == SHAPES
    moved = np.concatenate([(b - a).ravel() for a, b in zip(before, after, strict=True)])
    expected = WEIGHTS.astype(np.float64) @ DELTAS / WEIGHTS.sum()
    np.testing.assert_allclose(moved, expected, rtol=1e-4, atol=1e-6)
    told = output.metrics["client_work"]["train"]
    assert float(told["tokens"]) == WEIGHTS.sum()
    assert float(told["nll"]) == WEIGHTS @ LOSSES


def test_claimed_weight_is_used():
    model_fn = variable_model.build_model_fn(
        "cifg", vocabulary_size=V, seed=None, embedding_size=D, units=U
    )
    training = build_client_training(model_fn, tff.learning.optimizers.build_sgdm(0.1))
    uniform = build_upload_work(training, uniform_weights=True)
    told = build_upload_work(training, tells_loss=True)
    weight = tff.to_type(np.float32)
    assert uniform.next.type_signature.result.result.member.update_weight == weight
    assert told.next.type_signature.result.result.member.update_weight == tff.to_type(
        collections.OrderedDict(num_examples=np.float32, loss=np.float32)
    )


def test_elements_are_freed_when_their_packs_are_made(monkeypatch):
    uploads = [element(np.zeros(3, np.float32), 1.0, 1.0) for _ in range(6)]
    left = []
    make = upload_work.round_form.make_pack
    monkeypatch.setattr(
        upload_work.round_form,
        "make_pack",
        lambda *given: left.append(sum(one is not None for one in uploads)) or make(*given),
    )
    hand_over(uploads, CohortBatcher(2), 3)
    assert left == [4, 2, 0]
    assert not uploads
