"""Served rounds match `train`: the same clients, with their deltas sent over the wire."""

import collections
import contextlib
import threading

import numpy as np
import pytest
import tensorflow as tf

from tests.support.fakes import tiny_config
from tff_keyboard.algorithms.rounds import noised
from tff_keyboard.data import batches as batches_lib
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.vocabulary import NUM_SPECIAL
from tff_keyboard.training.build import build_model_fn
from tff_keyboard.training.client_inputs import CohortInputs
from tff_keyboard.training.federated import train_federated
from tff_keyboard_fleet.on_devices.serve import serve_federated
from tff_keyboard_fleet.tests.support.devices import Device, beside
from tff_keyboard_fleet.wire import weights

PLAIN = (
    "client.batch_size=1",
    "client.gradient_clip_norm=0",
    "client.learning_rate=0.1",
    "data.long_messages=truncate",
)
PRIVATE = (
    "aggregation.client_weighting=uniform",
    "aggregation.privacy.fixed_nonce=" + "0a" * 16,
    "aggregation.privacy.noise_multiplier=0.3",
    "train.min_separation_rounds=3",
)
RULES = {
    "fedavg": (),
    "fedatt": ("aggregation.rule.type=fedatt", "server.type=fedavg"),
    "fedmed": ("aggregation.rule={type='fedmed', top_fraction=0.6}", "server.type=fedavg"),
    "tree": ("aggregation.privacy.type=tree", *PRIVATE),
    "blt": ("aggregation.privacy.type=blt", *PRIVATE),
    "one by one": ("execution.clients_per_pack=1", "aggregation.client_weighting=examples"),
    "schedules": (
        "client.schedule={type='cosine', rounds=5, warmup_rounds=1}",
        "server.schedule={type='cosine', rounds=4}",
    ),
}


class Reversed:
    """A graph whose words are in another order than the vocabulary's."""

    def build(self, directory, model, vocabulary):
        return b"graph"

    def rows(self, vocabulary):
        return rows_of(len(vocabulary))


def rows_of(size):
    """Returns the row of the table for each row on the wire; special words come first."""
    return [*range(NUM_SPECIAL), *reversed(range(NUM_SPECIAL, size))]


class LocalTraining:
    """The training of a device: plain TensorFlow, one message a step."""

    def __init__(self, config, vocabulary_size):
        self._config = config
        self._model = build_model_fn(config, vocabulary_size, evaluation=False)()
        self._variables = self._model.trainable_variables
        self._rows = rows_of(vocabulary_size)  # there and back: it is its own inverse

    def __call__(self, initial, batches, learning_rate):
        """Returns `(delta, weight, loss after training)`."""
        shapes = [v.shape.as_list() for v in self._variables]
        arrays = weights.to_arrays(initial, shapes)
        for variable, value in zip(
            self._variables, [arrays[0][self._rows], *arrays[1:]], strict=True
        ):
            variable.assign(value)
        counts = []
        for batch in batches:
            with tf.GradientTape() as tape:
                output = self._model.forward_pass(batches_lib.split(batch))
            counts.append(int(output.num_examples))
            gradients = tape.gradient(output.loss, self._variables)
            for variable, gradient in zip(self._variables, gradients, strict=True):
                variable.assign_sub(learning_rate * tf.convert_to_tensor(gradient))
        losses = [float(self._model.forward_pass(batches_lib.split(b)).loss) for b in batches]
        table, *others = [v.numpy() for v in self._variables]
        delta = weights.to_vector([table[self._rows], *others]) - initial
        is_uniform = self._config.aggregation.client_weighting == "uniform"
        return delta, 1.0 if is_uniform else sum(counts), np.average(losses, weights=counts)


class Fleet:
    """Devices that take part as `people` says: round -> their numbers and batches, in order."""

    def __init__(self, people, config, vocabulary_size):
        self._people, self._config = people, config
        self._train = LocalTraining(config, vocabulary_size)
        self.errors = []
        self.uploads = 0

    @contextlib.contextmanager
    def __call__(self, app):
        self._devices = collections.defaultdict(lambda: None)
        with beside(self._run, app, self.errors):
            yield

    def _run(self, app):
        try:
            for round_num, clients in self._people.items():
                trained = []
                for number, batches in clients:
                    device = self._devices[number] or Device(app, number)
                    self._devices[number] = device
                    trained.append((device, *self._trained(device, round_num, batches)))
                for device, task, phases, delta, weight, loss in trained:
                    if "loss" not in phases or device.verdict(task, weight, loss) == "yes":
                        assert device.upload(task, delta, weight, loss).token
                        self.uploads += 1
        except BaseException as error:
            self.errors.append(error)
            raise

    def _trained(self, device, round_num, batches):
        task = None
        while task is None or task.round != round_num:
            plan = device.get("/v1/plan")
            answer = (
                device.check_in(weights.sha256(plan.get_data()))
                if plan.status_code == 200
                else None
            )
            task = getattr(answer, "task", None)
            if task is None:
                threading.Event().wait(0.2)  # the round before is being computed
        plan = plan.get_json(force=True)
        delta, weight, loss = self._train(device.model(task), batches, plan["learning_rate"])
        if "loss" in plan["phases"]:
            device.verdict(task, weight, loss)
        return task, plan["phases"], delta, weight, loss


def recorded_training(config, directory, monkeypatch):
    """Runs `train`, and records the clients and batches of each round."""
    people = collections.defaultdict(list)
    batches_of = CohortInputs.batches

    def batches(self, round_num, index, rehearsed=None):
        actual = batches_of(self, round_num, index, rehearsed)
        people[round_num].append((index, actual))
        return actual

    monkeypatch.setattr(CohortInputs, "batches", batches)
    train_federated(config, directory)
    return people


def weights_of(run):
    return dict(np.load(run / "model" / "weights.npz").items())


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_served_rounds_match_train(rule, store, tmp_path, monkeypatch):
    # The noise of devices depends on their uploads, the noise of a simulation on the store.
    monkeypatch.setattr(noised, "content_of_data", lambda key: None)
    config = tiny_config(store, *PLAIN, "train.rounds=4", *RULES[rule])
    people = recorded_training(config, tmp_path / "train", monkeypatch)
    fleet = Fleet(people, config, len(ClientStore(store).vocabulary))
    serve_federated(config, tmp_path / "served", serve=fleet, graph=Reversed())
    told = sum(map(len, people.values()))
    # Of three clients FedMed's top 60 % are two; the third's delta is never sent.
    assert fleet.uploads == (told if rule != "fedmed" else 2 * len(people))
    expected, actual = weights_of(tmp_path / "train"), weights_of(tmp_path / "served")
    assert expected.keys() == actual.keys()
    for name in expected:
        np.testing.assert_allclose(actual[name], expected[name], rtol=1e-5, atol=1e-6, err_msg=name)
