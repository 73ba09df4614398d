"""The programs that `benchmarks.round.round` times. A call runs a round and returns its seconds."""

import contextlib
import json
import os
import pathlib
import subprocess
import time

import numpy as np

from tff_keyboard_lab.tools import process_tree


class DropFactory:
    """Builds the factory of an aggregation that ignores the clients' updates and returns zeros."""

    @staticmethod
    def build():
        """Returns the factory. Imports TensorFlow only now."""
        import tensorflow as tf
        import tensorflow_federated as tff

        class Drop(tff.aggregators.WeightedAggregationFactory):
            """An aggregation that ignores the updates and returns zeros."""

            def create(self, value_type, weight_type):
                @tff.tensorflow.computation
                def zeros():
                    specs = tff.types.type_to_tf_tensor_specs(value_type)
                    return tf.nest.map_structure(lambda s: tf.zeros(s.shape, s.dtype), specs)

                @tff.federated_computation
                def initialize():
                    return tff.federated_value((), tff.SERVER)

                @tff.federated_computation(
                    initialize.type_signature.result,
                    tff.FederatedType(value_type, tff.CLIENTS),
                    tff.FederatedType(weight_type, tff.CLIENTS),
                )
                def next_fn(state, value, weight):
                    return tff.templates.MeasuredProcessOutput(
                        state,
                        tff.federated_eval(zeros, tff.SERVER),
                        tff.federated_value((), tff.SERVER),
                    )

                return tff.templates.AggregationProcess(initialize, next_fn)

        return Drop()


class TffRound:
    """A learning process, its state and one cohort. A call runs a round from that state.

    Args:
      process: The learning process.
      data: The cohort, as `process.next` takes it.
      installed: The context in which it runs.
      worker_pids: Processes whose CPU and memory count for the round, in addition to this process.
      weights: Trainable weights from which the state starts; None for the initial weights of
        `process`.

    Attributes:
      after: Trainable weights after the last round.
    """

    def __init__(self, process, data, installed, worker_pids, weights=None):
        import tensorflow_federated as tff

        self._process = process
        self._installed = installed
        self.worker_pids = worker_pids
        self._data = data
        with self._context():
            self._state = process.initialize()
            if weights is not None:
                self._state = process.set_model_weights(
                    self._state, tff.learning.models.ModelWeights(list(weights), [])
                )
        self.after = None

    @contextlib.contextmanager
    def _context(self):
        import tensorflow_federated as tff

        tff.framework.set_default_context(self._installed)
        yield

    def __call__(self):
        """Returns wall seconds, and CPU seconds of the workers and of this process."""
        with self._context():
            start, start_cpu = time.perf_counter(), self._cpu_seconds()
            output = self._process.next(self._state, self._data)
            seconds, cpu = time.perf_counter() - start, self._cpu_seconds() - start_cpu
            self.after = list(self._process.get_model_weights(output.state).trainable)
        return seconds, cpu

    def _cpu_seconds(self):
        return time.process_time() + sum(map(process_tree.cpu_seconds, self.worker_pids))


class NoAnswerError(RuntimeError):
    """The process of a contestant ended."""


class Answering:
    """A process that runs a round for each line it is sent and answers with JSON.

    Args:
      command: Its command line.
      environment: Variables that differ from those of this process.

    Raises:
      NoAnswerError: From a call, if the process ends instead.
    """

    def __init__(self, command, environment=None):
        # Spinning OpenMP threads would block each other's cores as soon as other processes run.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"OMP_WAIT_POLICY": "PASSIVE", **os.environ, **(environment or {})},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._questions, self._answers = self._process.stdin, self._process.stdout
        self._name = " ".join(command)
        self.last: dict = {}

    def __call__(self):
        start_cpu = self._sum(process_tree.cpu_seconds)
        with contextlib.suppress(BrokenPipeError):
            self._questions.write("round\n")
            self._questions.flush()
        while not (line := self._answers.readline()).startswith("{"):  # Flower is chatty
            if not line:
                raise NoAnswerError(f"{self._name} ended without a result.")
        self.last = json.loads(line)
        self.last["peak_megabytes"] = self._sum(process_tree.peak_megabytes)
        return self.last["seconds"], self._sum(process_tree.cpu_seconds) - start_cpu

    def _sum(self, measure):
        """Returns the sum over the process and its descendants."""
        pid = self._process.pid
        return sum(measure(p) for p in [pid, *process_tree.descendants(pid)])

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self._questions.close()
        self._process.wait()


def write_for_others(path, weights, clients, learning_rate, model="cifg"):
    """Writes the .npz that the scripts in other Pythons read."""
    arrays = {f"weight_{n}": np.asarray(w) for n, w in enumerate(weights)}
    arrays["model"] = np.array(model)
    arrays["batches_of_client"] = np.array([len(client) for client in clients])
    arrays["learning_rate"] = np.array(learning_rate)
    for c, client in enumerate(clients):
        arrays |= {f"batch_{c}_{n}": batch for n, batch in enumerate(client)}
    np.savez(path, **arrays)


def peer_commands(name, python, file):
    """Returns contestant -> command and environment, for the programs of one framework."""
    here = pathlib.Path(__file__).parent
    if name == "torch":
        loop = [python, str(here / "torch_loop.py"), str(file)]
        return {
            "torch": (loop, {}),
            "torch_1": ([*loop, "--threads=1"], {}),
            "torch_2": ([*loop, "--threads=1", "--processes=2"], {}),
        }
    if name == "jax":
        loop = [python, str(here / "jax_loop.py"), str(file)]
        return {
            "jax": (loop, {}),
            "jax_2": ([*loop, "--devices=2"], {}),
            "fedjax": ([*loop, "--fedjax"], {}),
        }
    simulator = [python, str(here / "other_simulators.py"), str(file), name]
    if name == "pfl":
        return {"pfl": (simulator, {}), "pfl_1": (simulator, {"OMP_NUM_THREADS": "1"})}
    return {name: (simulator, {})}
