"""Federated evaluation: the clients get the model, and each client returns one row of sums.

TFF's own metric aggregation adds clients up at once, but the jackknife over clients needs one row
per client. A pack of clients gives its rows in one call. In a simulation the server may see such
rows. A deployment must not, and would aggregate sums.
"""

import collections
import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.algorithms.client_packing import load_balancing, round_form
from tff_keyboard.algorithms.client_packing.round_form import PackFunction
from tff_keyboard.algorithms.composition import ModelFn
from tff_keyboard.data import batches as batches_lib
from tff_keyboard.data import elements
from tff_keyboard.execution.engine import Engine, Job, LocalEngine
from tff_keyboard.execution.graph_function import GraphFunction, tensor_specs

HandOver = Callable[[Sequence[Sequence[int]]], Any]


class FederatedEvaluator:
    """Evaluates weights on clients. Each client returns only its sums.

        sizes = {"vocabulary_size": 10_000, "seed": None}
        model_fn = tk.models.build_model_fn("cifg", evaluation=True, **sizes)
        evaluator = tk.evaluation.FederatedEvaluator(model_fn)

    Args:
      model_fn: Builds the model. The returned sums are its `report_local_unfinalized_metrics`, a
        flat mapping. Its batches are of `data.batches.ELEMENT_SPEC`.
      engine: Computes the packs. None means threads of this process.
      clients_per_call: Number of clients per call, > 0. It only bounds the memory.
    """

    def __init__(
        self,
        model_fn: ModelFn,
        *,
        engine: Engine | None = None,
        clients_per_call: int = 1024,
    ):
        if clients_per_call < 1:
            raise ValueError(f"`clients_per_call` must be >= 1, got {clients_per_call}.")
        self._clients_per_call = clients_per_call
        self._engine = engine or LocalEngine()
        self._names, self._function = _build_rows(model_fn)

    def __call__(
        self,
        weights: Any,
        clients: Sequence[Sequence[np.ndarray]],
        hand_over: HandOver | None = None,
    ) -> dict[str, np.ndarray]:
        """Returns the sums of each client, in the order of `clients`: name -> [clients, ...].

        Args:
          weights: A `tff.learning.models.ModelWeights`.
          clients: The batches of each client, [messages, time + 1] int32.
          hand_over: Takes packs, each a list of positions in `clients`, and returns small objects
            that represent them on the way to a node (`round_form.PackFunction`). None means their
            data.

        Raises:
          ValueError: There are no clients.
        """
        if not clients:
            raise ValueError("There are no clients to evaluate on.")
        max_clients = self._clients_per_call
        parts = [
            self._rows(weights, clients, range(len(clients))[start:][:max_clients], hand_over)
            for start in range(0, len(clients), max_clients)
        ]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _rows(
        self,
        weights: Any,
        clients: Sequence[Sequence[np.ndarray]],
        positions: Sequence[int],
        hand_over: HandOver | None,
    ) -> dict[str, np.ndarray]:
        """Returns the sums of some clients: for each name an array [positions, ...].

        Args:
          weights: The model's.
          clients: The batches of all clients.
          positions: Indices in `clients` of those to evaluate.
          hand_over: Makes the packs from groups of indices; None packs `clients` here.
        """
        sizes = [1 + sum(batch.size for batch in clients[position]) for position in positions]
        pack_positions = load_balancing.balance_load(
            sizes, load_balancing.num_packs(len(positions), 0)
        )
        groups = [[positions[p] for p in pack] for pack in pack_positions]
        packs = (hand_over or functools.partial(packs_of, clients))(groups)
        shared = [*weights.trainable, *weights.non_trainable]
        with contextlib.closing(self._engine.run(Job(self._function, shared, packs))) as results:
            rows_of_packs = [rows for _, rows in sorted(results, key=lambda result: result[0])]
        original_order = np.argsort([p for pack in pack_positions for p in pack])
        columns = zip(self._names, zip(*rows_of_packs, strict=True), strict=True)
        return {name: np.concatenate(parts)[original_order] for name, parts in columns}


def packs_of(clients: Sequence[Sequence[np.ndarray]], groups: Sequence[Sequence[int]]) -> list[Any]:
    """Returns a pack for each group of positions in `clients`."""
    return [
        round_form.make_pack([clients[p] for p in group], batches_lib.BATCH_SPEC)
        for group in groups
    ]


def _build_rows(model_fn: ModelFn) -> tuple[list[str], PackFunction]:
    """Returns the sums' names, and the function from weights and a pack to rows of clients."""
    with tf.Graph().as_default():
        model = model_fn()  # a tf.function method holds its object only weakly
        local = model.report_local_unfinalized_metrics()
        row_specs = {name: tf.TensorSpec(sums.shape, sums.dtype) for name, sums in local.items()}
        weights_type = tff.learning.models.weights_type_from_model(model)
    pack_specs = round_form.pack_specs(batches_lib.BATCH_SPEC)

    def evaluate(*tensors):
        """Returns one row of sums for each client of a pack: for each name a tensor [clients, ...].

        Args:
          *tensors: The values, shapes and ends of the pack, then the model's weights.
        """
        values, shapes, ends = tensors[: len(pack_specs)]
        joined = collections.OrderedDict(values=values, shapes=shapes)
        model = model_fn()
        variables = tff.learning.models.ModelWeights.from_model(model)

        def add_batch(count, batch):
            model.forward_pass(batches_lib.split(batch), training=False)
            return count + 1

        def add_client(client, start, rows):
            """Writes the sums of the batches from `start` as the client's row."""
            model.reset_metrics()
            elements.fold(
                add_batch,
                tf.constant(0),
                joined,
                batches_lib.BATCH_SPEC,
                start=start,
                stop=ends[client],
            )
            sums = model.report_local_unfinalized_metrics()
            written = [row.write(client, sums[name]) for name, row in zip(sums, rows, strict=True)]
            return client + 1, ends[client], written

        @tf.function(autograph=False)
        def evaluate_clients():
            flat = [*variables.trainable, *variables.non_trainable]
            for variable, value in zip(flat, tensors[len(pack_specs) :], strict=True):
                variable.assign(value)
            rows = [
                tf.TensorArray(spec.dtype, tf.size(ends), element_shape=spec.shape)
                for spec in row_specs.values()
            ]
            start = tf.constant(0), tf.constant(0, tf.int64), rows
            _, _, rows = tf.while_loop(
                lambda client, *_: client < tf.size(ends), add_client, start, parallel_iterations=1
            )
            return [row.stack() for row in rows]

        return evaluate_clients()

    specs = [*pack_specs, *tensor_specs(weights_type)]
    return list(row_specs), PackFunction(GraphFunction.trace(evaluate, specs))
