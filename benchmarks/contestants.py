"""What `benchmarks.round` times: calling one runs a round, and gives wall and CPU seconds."""

import contextlib
import json
import os
import subprocess
import time

import numpy as np

from benchmarks import process_tree


class DropFactory:
    """Makes the factory of an aggregation that takes nothing from the clients: zeros come out."""

    @staticmethod
    def build():
        import tensorflow as tf
        import tensorflow_federated as tff

        class Drop(tff.aggregators.WeightedAggregationFactory):
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
    """A learning process, its state and one cohort; calling it runs a round from that state.

    Attributes:
      after: Trainable weights after the last round.
    """

    def __init__(self, process, clients, installed, worker_pids, weights=None):
        import tensorflow_federated as tff

        from tff_keyboard.data import batches

        self._process = process
        self._installed = installed
        self.worker_pids = worker_pids
        self._datasets = [batches.batches_dataset(client) for client in clients]
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
        """Seconds of wall time, CPU seconds of the workers."""
        with self._context():
            start = time.perf_counter()
            start_cpu = sum(process_tree.cpu_seconds(pid) for pid in self.worker_pids)
            output = self._process.next(self._state, self._datasets)
            seconds = time.perf_counter() - start
            cpu = sum(process_tree.cpu_seconds(pid) for pid in self.worker_pids) - start_cpu
            self.after = list(self._process.get_model_weights(output.state).trainable)
        return seconds, cpu


class Answering:
    """A process that runs a round for each line it is sent and answers with JSON."""

    def __init__(self, command):
        # Spinning OpenMP threads take a core from each other as soon as anything else runs.
        environment = {"OMP_WAIT_POLICY": "PASSIVE", **os.environ}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._questions, self._answers = self._process.stdin, self._process.stdout
        self._name = " ".join(command)
        self.last: dict = {}

    def __call__(self):
        start_cpu = self._sum(process_tree.cpu_seconds)
        self._questions.write("round\n")
        self._questions.flush()
        while not (line := self._answers.readline()).startswith("{"):  # Flower is chatty
            if not line:
                raise SystemExit(f"{self._name} ended without an answer")
        self.last = json.loads(line)
        self.last["peak_megabytes"] = self._sum(process_tree.peak_megabytes)
        return self.last["seconds"], self._sum(process_tree.cpu_seconds) - start_cpu

    def _sum(self, measure):
        """Of the process and those below it."""
        pid = self._process.pid
        return sum(measure(p) for p in [pid, *process_tree.descendants(pid)])

    def close(self):
        self._questions.close()
        self._process.wait()


def write_for_others(path, weights, clients, learning_rate):
    """The .npz that the scripts in other Pythons read."""
    arrays = {f"weight_{n}": np.asarray(w) for n, w in enumerate(weights)}
    arrays["batches_of_client"] = np.array([len(client) for client in clients])
    arrays["learning_rate"] = np.array(learning_rate)
    for c, client in enumerate(clients):
        arrays |= {f"batch_{c}_{n}": batch for n, batch in enumerate(client)}
    np.savez(path, **arrays)
