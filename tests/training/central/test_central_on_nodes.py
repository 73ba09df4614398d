"""Central training whose rounds are items of work; the engine here pickles all that travels."""

import pickle

import numpy as np
import pytest

from tests.support import fakes
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.models.saved_model import load_model
from tff_keyboard.training.central import central_on_nodes
from tff_keyboard.training.central.central_training import PooledInputs
from tff_keyboard.training.central.train_central import train_central


class PicklingEngine:
    """Computes each item from pickled copies; knows what was asked of it."""

    made = None

    def __init__(self, cluster, options, files):
        type(self).made = self
        self.cluster, self.options, self.files = cluster, options, files
        self.items, self.keys, self.is_closed = [], set(), False

    def run(self, job):
        for position, item in enumerate(job.items):
            self.items.append(item)
            self.keys.add(job.function.key)
            function, shared = pickle.loads(pickle.dumps((job.function, job.shared), 5))
            result = function(None, _read_only(shared), item)
            yield position, pickle.loads(pickle.dumps(result, 5))

    def pop_spans(self):
        return []

    def pop_events(self):
        return []

    def place_names(self):
        return ["a node"]

    def close(self):
        self.is_closed = True


def _read_only(shared):
    """Arrays of Ray's object store cannot be written to."""
    for array in getattr(shared, "weights", []):
        array.setflags(write=False)
    return shared


@pytest.fixture
def on_node(monkeypatch):
    monkeypatch.setattr(central_on_nodes, "RayEngine", PicklingEngine)
    return "execution.engine=ray"


ADAM = ("central.optimizer=adam", "central.schedule.name=cosine", "central.schedule.rounds=3")
KEYSTROKES = ("train.best_metric=kss", "evaluation.keystroke_words=40")


REHEARSAL = ("fine_tuning.method.name=rehearsal",)
LWF = ("fine_tuning.method.name=lwf",)


@pytest.mark.parametrize(
    "more",
    [(), (*ADAM, *KEYSTROKES), REHEARSAL, LWF],
    ids=["sgd", "adam_with_a_schedule", "rehearsal", "lwf"],
)
def test_has_the_bits_of_this_machine(store, tmp_path, on_node, more):
    if more == LWF:
        train_central(fakes.tiny_config(store, "client.batch_size=4"), tmp_path / "general")
        more = (*LWF, f"model.initial_model={tmp_path / 'general'}")
    general = f"fine_tuning.general_store={store}"
    more = ("client.batch_size=4", "evaluation.every=2", general, *more)
    train_central(fakes.tiny_config(store, *more), tmp_path / "here")
    train_central(fakes.tiny_config(store, *more, on_node), tmp_path / "there")
    here, there = (tmp_path / "here", tmp_path / "there")
    assert (there / "metrics.jsonl").read_bytes() == (here / "metrics.jsonl").read_bytes()
    for ours, theirs in zip(*(load_model(p)[0].get_weights() for p in (here, there)), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    engine = PicklingEngine.made
    rounds = [item for item in engine.items if isinstance(item, int)]
    assert rounds == list(range(1, 4))
    assert engine.items.count(str(store)) == 4  # users and general text, in rounds 2 and 3
    assert len(engine.keys) == 2
    assert (engine.cluster.min_nodes, engine.cluster.max_nodes) == (1, 1)
    assert not engine.options.at_once  # TFF's worker is never needed
    assert engine.is_closed
    assert (there / "node_timings.csv").exists()
    assert not (here / "node_timings.csv").exists()


def test_begins_here_and_goes_on_there(store, tmp_path, on_node):
    own = "client.batch_size=4"
    train_central(fakes.tiny_config(store, own), tmp_path / "straight")
    train_central(fakes.tiny_config(store, own, "train.rounds=2"), tmp_path / "moved")
    train_central(fakes.tiny_config(store, own, on_node), tmp_path / "moved")
    first, second = (tmp_path / name / "metrics.jsonl" for name in ("straight", "moved"))
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("more", [(), ("data.max_length=3", "data.long_messages=keep")])
def test_a_plan_says_what_the_round_has(store, more):
    pooled = PooledInputs(fakes.tiny_config(store, *more), ClientStore(store))
    for round_num in (1, 2, 40):
        made, facts = pooled.round_input(round_num)
        assert pooled.round_plan(round_num) == (round_num, facts)
        assert facts["tokens"] == sum(int(np.count_nonzero(batch[:, 1:])) for batch in made)
