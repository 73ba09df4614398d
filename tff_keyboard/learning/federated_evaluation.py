"""Federated evaluation: the model goes to the clients, one row of sums per client comes back."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.learning.composition import LOOP, ModelFn
from tff_keyboard.learning.per_client_metrics import per_client_rows


class FederatedEvaluator:
    """Evaluates weights on clients through `tff.learning.algorithms.build_fed_eval`.

    Args:
      model_fn: Builds the model; its `report_local_unfinalized_metrics` are the sums returned.
      clients_per_call: Clients handed to the worker at once, > 0: bounds memory and nothing else.
    """

    def __init__(self, model_fn: ModelFn, *, clients_per_call: int = 64):
        if clients_per_call < 1:
            raise ValueError(f"`clients_per_call` must be >= 1, got {clients_per_call}.")
        self._clients_per_call = clients_per_call
        self._process = tff.learning.algorithms.build_fed_eval(
            model_fn,
            metrics_aggregation_process=per_client_rows(model_fn),
            loop_implementation=LOOP,
        )
        self._initial_state = self._process.initialize()

    def __call__(self, weights: Any, datasets: Sequence[tf.data.Dataset]) -> dict[str, np.ndarray]:
        """Sums per client, in the order of `datasets`.

        Args:
          weights: `ModelWeights` of a learning process.
          datasets: One per client, with the model's `input_spec` elements; at least one.

        Returns:
          Name -> [clients, ...].

        Raises:
          ValueError: There are no clients.
        """
        if not datasets:
            raise ValueError("There are no clients to evaluate on.")
        # The state of an evaluation process is its weights and nothing that accumulates for us, so
        # each call starts from the initial one.
        state = self._process.set_model_weights(self._initial_state, weights)
        parts = []
        for start in range(0, len(datasets), self._clients_per_call):
            output = self._process.next(state, datasets[start : start + self._clients_per_call])
            parts.append(output.metrics["client_work"]["eval"]["current_round_metrics"])
        return {name: np.concatenate([np.asarray(p[name]) for p in parts]) for name in parts[0]}
