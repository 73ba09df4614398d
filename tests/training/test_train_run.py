"""One training whatever the process is: which model it leaves."""

import json
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow_federated as tff

from tests.support.fakes import tiny_config
from tff_keyboard.algorithms.rounds.round_process import RoundInput
from tff_keyboard.config import dump
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.models.saved_model import load_model
from tff_keyboard.storage.errors import RunDirectoryError
from tff_keyboard.training.build import build_initial_model, build_run_settings
from tff_keyboard.training.train_run import open_run, train_run

RECALLS = {1: 0.1, 2: 0.4, 3: 0.2}  # the second round is the best


class State(NamedTuple):
    """Every weight of the model has this value."""

    value: np.ndarray


class Output(NamedTuple):
    state: State
    metrics: dict


class Counting:
    """A process that makes every weight the number of the round."""

    def __init__(self, shapes):
        self._shapes = shapes

    def initialize(self):
        return State(np.float32(0))

    def next(self, state, datasets):
        del datasets
        sums = {"nll": 6.0, "tokens": 3}
        return Output(State(np.float32(state.value + 1)), {"client_work": {"train": sums}})

    def get_model_weights(self, state):
        values = [np.full(shape, state.value, np.float32) for shape in self._shapes]
        return tff.learning.models.ModelWeights(values, [])


@pytest.mark.slow
@pytest.mark.parametrize("final_model, kept", [("best", 2), ("last", 3)])
def test_saved_model_is_from_the_configured_round(store, tmp_path, final_model, kept):
    config = tiny_config(store, f"train.final_model={final_model}", "evaluation.every=1")
    client_store = ClientStore(store)
    model = build_initial_model(config, client_store.vocabulary)
    shapes = [variable.shape for variable in model.trainable_variables]

    def evaluate(round_num, weights):
        assert np.all(weights.trainable[0] == round_num)
        return {
            "recall_at_1_no_eos": RECALLS[round_num],
            "recall_at_3_no_eos": 0.5,
            "perplexity": 9.0,
        }

    text, privacy = dump(config), config.aggregation.privacy
    with open_run(tmp_path / "run", text, privacy, client_store, own_parts={}) as run:
        row = train_run(
            run,
            client_store,
            model,
            build_run_settings(config),
            process=Counting(shapes),
            round_input=lambda round_num: RoundInput([], {"clients": 0, "tokens": 3}),
            evaluate=evaluate,
        )
    saved, vocabulary = load_model(tmp_path / "run")
    assert vocabulary == client_store.vocabulary
    assert all(np.all(weights == kept) for weights in saved.get_weights())
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").open()]
    assert [r["evaluation/recall_at_1_no_eos"] for r in rows] == list(RECALLS.values())
    assert rows[-1] == {"round": 3, **row} or rows[-1] == row


def test_training_without_noise_does_not_continue_a_private_run(store, tmp_path):
    """Its config was edited by hand. The statement of the directory would be false."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "noise_nonce").touch()
    config = tiny_config(store)
    client_store = ClientStore(store)
    with pytest.raises(RunDirectoryError, match="is a private run"):
        open_run(
            tmp_path / "run", dump(config), config.aggregation.privacy, client_store, own_parts={}
        )
