"""Shared fakes: processes small enough to train in milliseconds, and a training to be killed; the
demo shrunk to seconds, and what a run of it leaves behind.

`python -m tests.support.fakes --help` runs that training in a process of its own.
"""

import argparse
import collections
import hashlib
import json
import os
import pathlib
import random
import signal
import sys
import time
from typing import NamedTuple

import numpy as np

from tff_keyboard.host import quiet
from tff_keyboard.training.loop import errors

NUM_FEATURES = 3

# Overrides of configs/demo.toml. The `[data]` ones make the store of the fixture `store`.
TINY = (
    "data.synthetic_typists=24",
    "data.synthetic_messages=12",
    "data.vocabulary_size=120",
    "data.validation_fraction=0.2",
    "data.held_out_fraction=0.2",
    "model.units=12",
    "model.embedding_size=8",
    "client.max_examples=8",
    "train.rounds=3",
    "train.clients_per_round=3",
    "train.checkpoint_every=1",
    "evaluation.every=2",
)


def tiny_config(store: pathlib.Path, *overrides: str):
    """The demo's config, shrunk, on a store; `overrides` win over `TINY`."""
    from tff_keyboard import config

    return config.load("configs/demo.toml", [*TINY, f"data.store={store}", *overrides])


def save_untrained_run(directory: pathlib.Path, config, seed: int = 1) -> pathlib.Path:
    """A run directory with config and initial model, which is what most tasks read."""
    from tff_keyboard import config as config_lib
    from tff_keyboard.data.store.client_store import ClientStore
    from tff_keyboard.models import build_model
    from tff_keyboard.models.saved_model import save_model

    vocabulary = ClientStore(config.data.store).vocabulary
    model = build_model(
        config.model.name, vocabulary_size=len(vocabulary), seed=seed, **config.model.arguments()
    )
    directory.mkdir()
    (directory / "config.toml").write_text(config_lib.dump(config))
    save_model(directory / "model", model, vocabulary)
    return directory


def blow_up(run: pathlib.Path) -> None:
    """Makes a run's model one that has diverged: its weights are finite, its predictions NaN."""
    import shutil

    from tff_keyboard.models.saved_model import load_model, save_model
    from tff_keyboard.storage.model_description import read_description

    model, vocabulary = load_model(run)
    rounds = read_description(run)[1].get("rounds")
    for variable in model.variables:
        variable.assign(variable * 0 + 1e30)
    shutil.rmtree(run / "model")
    save_model(run / "model", model, vocabulary, rounds=rounds)


def ledger_header(**changes):
    """The header of a privacy ledger of FedAvg with Gaussian noise, ten of a thousand people."""
    from tff_keyboard.privacy.ledger.ledger_header import LedgerHeader
    from tff_keyboard.privacy.registry.gaussian import Gaussian

    facts = {
        "mechanism": Gaussian(),
        "aggregator": "mean",
        "noise_multiplier": 1.0,
        "clip_norm": 0.5,
        "delta": 1e-6,
        "population": 1000,
        "clients_per_round": 10,
        "selected_per_round": 10,
        "sampling": "fixed_size",
        "uniform_sampling": True,
        "secret_cohorts": True,
        "min_separation_rounds": 1,
    }
    return LedgerHeader(**(facts | changes))


class NumpyState(NamedTuple):
    """State of `NumpyProcess`: a vector and a round counter."""

    weights: np.ndarray
    rounds: np.int32


class NumpyProcess:
    """Looks like a TFF learning process and needs no worker.

    Client "datasets" are vectors [3] float64; a round moves the weights halfway to their mean and
    reports the distance as the loss.
    """

    def initialize(self) -> NumpyState:
        return NumpyState(np.zeros(NUM_FEATURES), np.int32(0))

    def next(self, state: NumpyState, datasets: list):
        step = np.mean(datasets, axis=0) - state.weights
        metrics = {
            "client_work": {"train": {"loss": np.linalg.norm(step)}},
            "finalizer": {"update_non_finite": np.int32(0)},
        }
        new_state = NumpyState(state.weights + 0.5 * step, np.int32(state.rounds + 1))
        return NumpyOutput(new_state, metrics)

    def get_model_weights(self, state: NumpyState) -> np.ndarray:
        return state.weights


class NumpyOutput(NamedTuple):
    state: NumpyState
    metrics: dict


def numpy_cohort(round_num: int):
    """A cohort of three vectors for `NumpyProcess`: a pure function of the round."""
    from tff_keyboard.algorithms.rounds.round_process import RoundInput

    generator = np.random.default_rng([7, round_num])
    datasets = list(generator.normal(size=(3, NUM_FEATURES)))
    return RoundInput(datasets, {"clients": 3, "cohort": digest(datasets)[:8]})


def tiny_process():
    """FedAvg with server momentum of a linear model, in few lines: a real TFF learning process."""
    import tensorflow as tf
    import tensorflow_federated as tff

    weights_type = tff.TensorType(np.float32, [NUM_FEATURES, 1])
    element_type = collections.OrderedDict(
        x=tff.TensorType(np.float32, [None, NUM_FEATURES]), y=tff.TensorType(np.float32, [None, 1])
    )
    data_type = tff.SequenceType(element_type)
    state_type = collections.OrderedDict(weights=weights_type, velocity=weights_type)

    @tff.tensorflow.computation
    def initial_state():
        zeros = tf.zeros([NUM_FEATURES, 1])
        return collections.OrderedDict(weights=zeros, velocity=zeros)

    @tff.tensorflow.computation(weights_type, data_type)
    def train_client(weights, dataset):
        def step(carry, batch):
            current, loss, count = carry
            error = batch["x"] @ current - batch["y"]
            gradient = tf.transpose(batch["x"]) @ error
            examples = tf.cast(tf.shape(error)[0], tf.float32)
            return current - 0.05 * gradient, loss + tf.reduce_sum(error**2), count + examples

        trained, loss, count = dataset.reduce((weights, 0.0, 0.0), step)
        return collections.OrderedDict(delta=trained - weights, loss=loss, count=count)

    @tff.tensorflow.computation(state_type, weights_type)
    def update_server(state, delta):
        velocity = 0.9 * state["velocity"] + delta
        return collections.OrderedDict(weights=state["weights"] + velocity, velocity=velocity)

    @tff.federated_computation
    def initialize_fn():
        return tff.federated_eval(initial_state, tff.SERVER)

    @tff.federated_computation(
        tff.FederatedType(state_type, tff.SERVER), tff.FederatedType(data_type, tff.CLIENTS)
    )
    def next_fn(state, datasets):
        weights = tff.federated_broadcast(state["weights"])
        trained = tff.federated_map(train_client, (weights, datasets))
        delta = tff.federated_mean(trained["delta"], trained["count"])
        metrics = tff.federated_zip(
            collections.OrderedDict(
                loss=tff.federated_sum(trained["loss"]),
                examples=tff.federated_sum(trained["count"]),
            )
        )
        new_state = tff.federated_map(update_server, (state, delta))
        return tff.learning.templates.LearningProcessOutput(new_state, metrics)

    @tff.tensorflow.computation(state_type)
    def get_model_weights(state):
        return state["weights"]

    @tff.tensorflow.computation(state_type, weights_type)
    def set_model_weights(state, weights):
        return collections.OrderedDict(weights=weights, velocity=state["velocity"])

    return tff.learning.templates.LearningProcess(
        initialize_fn, next_fn, get_model_weights, set_model_weights
    )


def federated_averaging():
    """TFF's own weighted FedAvg of the same model, as long to build as a real one."""
    import tensorflow as tf
    import tensorflow_federated as tff

    element_spec = collections.OrderedDict(
        x=tf.TensorSpec([None, NUM_FEATURES], tf.float32), y=tf.TensorSpec([None, 1], tf.float32)
    )

    def model_fn():
        layers = [
            tf.keras.layers.InputLayer([NUM_FEATURES]),
            tf.keras.layers.Dense(1, kernel_initializer="zeros"),
        ]
        return tff.learning.models.from_keras_model(
            tf.keras.Sequential(layers),
            loss=tf.keras.losses.MeanSquaredError(),
            input_spec=element_spec,
        )

    return tff.learning.algorithms.build_weighted_fed_avg(
        model_fn,
        tff.learning.optimizers.build_sgdm(0.05),
        tff.learning.optimizers.build_sgdm(1.0, momentum=0.9),
    )


def tiny_examples(seed, num_examples: int = 6):
    """The examples of a client of `tiny_process`: a noisy linear function."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(num_examples, NUM_FEATURES)).astype(np.float32)
    y = x @ np.array([[1.0], [-2.0], [0.5]], np.float32) + 0.1
    y += generator.normal(scale=0.01, size=y.shape).astype(np.float32)
    return collections.OrderedDict(x=x, y=y)


def as_dataset(examples, batch_size: int = 2):
    """A client's batches as a `tf.data.Dataset`."""
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices(examples).batch(batch_size)


def as_arrays(examples, batch_size: int = 2):
    """A client's batches as a list of arrays."""
    cuts = [slice(i, i + batch_size) for i in range(0, len(examples["x"]), batch_size)]
    return [collections.OrderedDict((n, v[cut]) for n, v in examples.items()) for cut in cuts]


def tiny_cohort(round_num: int, num_clients: int = 4, batches_of=as_dataset):
    """A cohort for `tiny_process`: a pure function of the round."""
    from tff_keyboard.algorithms.rounds.round_process import RoundInput

    clients = np.random.default_rng([11, round_num]).choice(20, num_clients, replace=False)
    datasets = [batches_of(tiny_examples([13, client], 4 + client % 5)) for client in clients]
    return RoundInput(datasets, {"clients": num_clients, "cohort": "-".join(map(str, clients))})


def digest(structure) -> str:
    """sha256 over all leaves of a structure of arrays, with dtypes and shapes."""
    import tree

    checksum = hashlib.sha256()
    for leaf in tree.flatten(structure):
        array = np.asarray(leaf)
        checksum.update(f"{array.dtype.str}{array.shape}".encode())
        checksum.update(array.tobytes())
    return checksum.hexdigest()


def train_tiny(directory: pathlib.Path, rounds: int, seconds_per_round: float = 0.0) -> None:
    """A whole training of `tiny_process` in a run directory; writes `digest.txt` at its end."""
    from tff_keyboard.algorithms.client_packing.local_context import local_context
    from tff_keyboard.storage import run_directory
    from tff_keyboard.training.loop import (
        best_round,
        checkpoints,
        release,
        round_clock,
        training_loop,
    )

    def cohort_source(round_num):
        time.sleep(seconds_per_round)
        # Arrays, as a training of a store has them. In a fork, iterators of `tf.data` corrupt the
        # heap in one of a hundred runs.
        return tiny_cohort(round_num, batches_of=as_arrays)

    def evaluate(round_num, weights):
        return {"distance": float(np.abs(weights).sum())}

    local_context()
    with run_directory.RunDirectory.create(
        directory, config_text=f"[train]\nrounds = {rounds}\n", data_card_text="{}"
    ) as run:
        result = training_loop.TrainingLoop(
            process=tiny_process(),
            cohort_source=cohort_source,
            total_rounds=rounds,
            checkpoint_manager=checkpoints.CheckpointManager(run.checkpoints),
            release_managers=[
                release.MetricsRelease(run.metrics_jsonl, run.metrics_csv),
                release.TensorBoardRelease(run.tensorboard),
            ],
            timings_manager=release.TimingsRelease(run.timings_csv, round_clock.TIMING_COLUMNS),
            evaluate=evaluate,
            evaluate_every=3,
            best_metric=best_round.BestMetric("evaluation/distance"),
            checkpoint_every=2,
            progress=lambda p: print("round", p.round_num, flush=True),
        ).train()
    text = f"{digest(result.state)} {digest(result.best_model_weights)}\n"
    (directory / "digest.txt").write_text(text)


def train_tiny_under_kills(
    directory: pathlib.Path, rounds: int, kills: int, seed: int, seconds_per_round: float
) -> None:
    """Trains in child processes, of which `kills` are killed with SIGKILL at random moments.

    TFF is imported once, here, and each child is a fork made before TFF computes anything. The
    first, `alone` beside `directory`, is left alone; the last, also beside it, is asked to end by
    SIGTERM after a round. Prints a JSON line: the rounds on disk at each kill, and the exit code
    of the one that was asked.
    """
    from tff_keyboard.training.loop import training_loop  # noqa: F401

    generator = random.Random(seed)
    rounds_at_kill: list[int] = []
    _, status = os.waitpid(_start_tiny(directory.with_name("alone"), rounds, 0.0), 0)
    if status:
        sys.exit(os.waitstatus_to_exitcode(status))
    print("killed from here on", flush=True)
    while True:
        pid = _start_tiny(directory, rounds, seconds_per_round)
        if len(rounds_at_kill) == kills:
            break
        # wait for the first rows of this child, so that kills fall between rounds too
        done = _num_rows(directory)
        while _num_rows(directory) <= done and _num_rows(directory) < rounds:
            time.sleep(0.005)
        time.sleep(generator.uniform(0.0, 2.5 * max(seconds_per_round, 0.1)))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        rounds_at_kill.append(_num_rows(directory))
    _, status = os.waitpid(pid, 0)
    asked = directory.with_name("asked to end")
    pid = _start_tiny(asked, 500, 0.0)
    while not _num_rows(asked):
        time.sleep(0.005)
    os.kill(pid, signal.SIGTERM)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print(json.dumps({"rounds_at_kill": rounds_at_kill, "asked": code}), flush=True)
    sys.exit(os.waitstatus_to_exitcode(status))


def _start_tiny(directory: pathlib.Path, rounds: int, seconds_per_round: float) -> int:
    """A training in a fork; its process id."""
    pid = os.fork()
    if pid:
        return pid
    code = _train_to_its_end(directory, rounds, seconds_per_round)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _train_to_its_end(directory: pathlib.Path, rounds: int, seconds_per_round: float) -> int:
    """An exit code; as the tasks do, an interruption is a line."""
    try:
        train_tiny(directory, rounds, seconds_per_round)
    except errors.TrainingInterrupted as interrupted:
        print(interrupted, file=sys.stderr)
        return interrupted.exit_code
    return 0


def _num_rows(directory: pathlib.Path) -> int:
    path = directory / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def main() -> None:
    parser = argparse.ArgumentParser(description="A tiny training to be killed.")
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds-per-round", type=float, default=0.0)
    flags = parser.parse_args()
    quiet.import_tensorflow_federated()
    if flags.kills:
        train_tiny_under_kills(
            flags.directory, flags.rounds, flags.kills, flags.seed, flags.seconds_per_round
        )
        return
    sys.exit(_train_to_its_end(flags.directory, flags.rounds, flags.seconds_per_round))


if __name__ == "__main__":
    main()
