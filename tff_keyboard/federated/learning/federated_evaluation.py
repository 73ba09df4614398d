"""Federated evaluation: the model goes to the clients, one row of sums per client comes back.

TFF's own metric aggregation adds clients up before anyone can ask how much they differ; the
jackknife over users needs the rows. A pack of clients gives its rows in one call, and the
aggregation joins them in the order of the packs. In a simulation the server may see such rows; a
deployment must not, and would aggregate sums.
"""

import collections
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.data import batches as batches_lib
from tff_keyboard.federated.learning.composition import ModelFn
from tff_keyboard.packs import compiler, dealing, elements

HandOver = Callable[[Sequence[Sequence[int]]], Any]


class FederatedEvaluator:
    """Evaluates weights on clients.

    Args:
      model_fn: Builds the model; its `report_local_unfinalized_metrics`, a flat mapping, are the
        sums returned. Its batches are of `data.batches.ELEMENT_SPEC`.
      clients_per_call: Clients handed to the workers at once, > 0: bounds memory and nothing else.
    """

    def __init__(self, model_fn: ModelFn, *, clients_per_call: int = 1024):
        if clients_per_call < 1:
            raise ValueError(f"`clients_per_call` must be >= 1, got {clients_per_call}.")
        self._clients_per_call = clients_per_call
        self._evaluate = build_evaluation(model_fn)

    def __call__(
        self,
        weights: Any,
        clients: Sequence[Sequence[np.ndarray]],
        hand_over: HandOver | None = None,
    ) -> dict[str, np.ndarray]:
        """Sums per client, in the order of `clients`: name -> [clients, ...].

        `clients` are the batches of each, [messages, time + 1] int32; none at all is a
        `ValueError`. `hand_over` makes of packs, each a list of positions in `clients`, what stands
        for them in TFF's call; None: their data.
        """
        if not clients:
            raise ValueError("There are no clients to evaluate on.")
        most = self._clients_per_call
        parts = [
            self._rows(weights, clients, range(len(clients))[start:][:most], hand_over)
            for start in range(0, len(clients), most)
        ]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _rows(
        self,
        weights: Any,
        clients: Sequence[Sequence[np.ndarray]],
        positions: Sequence[int],
        hand_over: HandOver | None,
    ) -> dict[str, np.ndarray]:
        sizes = [1 + sum(batch.size for batch in clients[position]) for position in positions]
        dealt = dealing.deal(sizes, dealing.num_packs(len(positions), 0, 1))
        groups = [[positions[p] for p in pack] for pack in dealt]
        rows = self._evaluate(weights, (hand_over or functools.partial(packs_of, clients))(groups))
        back = np.argsort([p for pack in dealt for p in pack])
        return {name: np.asarray(values)[back] for name, values in rows.items()}


def packs_of(clients: Sequence[Sequence[np.ndarray]], groups: Sequence[Sequence[int]]) -> list[Any]:
    """The packs that `build_evaluation` takes."""
    return [
        compiler.make_pack(
            [[batches_lib.split(batch) for batch in clients[p]] for p in group],
            batches_lib.ELEMENT_SPEC,
        )
        for group in groups
    ]


def build_evaluation(model_fn: ModelFn) -> tff.Computation:
    """`(weights@SERVER, {pack}@CLIENTS) -> rows@SERVER`, name -> [clients, ...] in order."""
    with tf.Graph().as_default():
        model = model_fn()  # a tf.function method holds its object only weakly
        local = model.report_local_unfinalized_metrics()
        row_specs = collections.OrderedDict(
            (name, tf.TensorSpec([None, *value.shape], value.dtype))
            for name, value in local.items()
        )
    weights_type = tff.learning.models.weights_type_from_model(model)
    client_type = compiler.pack_type(batches_lib.ELEMENT_SPEC)
    rows_type = tff.types.tensorflow_to_type(row_specs)

    @tff.tensorflow.computation(client_type, weights_type)
    def evaluate(pack, weights):
        model = model_fn()
        variables = tff.learning.models.ModelWeights.from_model(model)
        joined = tf.nest.pack_sequence_as(
            elements.joined_spec(batches_lib.ELEMENT_SPEC), tf.nest.flatten(pack["leaves"])
        )

        def add_batch(count, batch):
            model.forward_pass(batch, training=False)
            return count + 1

        @tf.function
        def evaluate_clients():
            tf.nest.map_structure(lambda v, x: v.assign(x), variables, weights)
            ends = pack["ends"]
            rows = [
                tf.TensorArray(spec.dtype, tf.size(ends), element_shape=spec.shape[1:])
                for spec in row_specs.values()
            ]
            start = tf.constant(0, tf.int64)
            for client in tf.range(tf.size(ends)):
                model.reset_metrics()
                elements.fold(
                    add_batch, 0, joined, batches_lib.ELEMENT_SPEC, start=start, stop=ends[client]
                )
                start = ends[client]
                sums = model.report_local_unfinalized_metrics()
                rows = [row.write(client, sums[name]) for name, row in zip(sums, rows, strict=True)]
            return collections.OrderedDict(
                (name, row.stack()) for name, row in zip(row_specs, rows, strict=True)
            )

        return evaluate_clients()

    @tff.tensorflow.computation
    def no_rows():
        return collections.OrderedDict(
            (name, tf.zeros([0, *spec.shape[1:]], spec.dtype)) for name, spec in row_specs.items()
        )

    @tff.tensorflow.computation(rows_type, rows_type)
    def join(first, second):
        return collections.OrderedDict(
            (name, tf.concat([first[name], second[name]], 0)) for name in row_specs
        )

    report = tff.tensorflow.computation(lambda rows: rows, rows_type)

    @tff.federated_computation(
        tff.FederatedType(weights_type, tff.SERVER), tff.FederatedType(client_type, tff.CLIENTS)
    )
    def evaluate_packs(weights, packs):
        rows = tff.federated_map(evaluate, (packs, tff.federated_broadcast(weights)))
        return tff.federated_aggregate(rows, no_rows(), join, join, report)

    return evaluate_packs
