"""Metrics of a validation: of the clients, and of the general population if there is one.

    recall_at_1_no_eos, perplexity, ...        of the store's validation clients
    general/recall_at_1_no_eos, ...            of the general corpus's validation clients
    trade_off/recall_at_1_no_eos, ...          w * users + (1 - w) * general, w = user_weight;
                                               a perplexity is averaged in nats

`trade_off/perplexity` is the average perplexity of Popov et al. 2018, Table 1,
https://arxiv.org/abs/1712.07473: the perplexity of both test sets, pooled by tokens. With w = 200 /
370, the users' share of the paper's test tokens, it is the last column of that table in every row.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tff_keyboard.algorithms.federated_evaluation import FederatedEvaluator
from tff_keyboard.config.sections.train_config import EvaluationConfig
from tff_keyboard.data.batches import draw_positions
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.evaluation.counts import batch_evaluation
from tff_keyboard.evaluation.counts.typed_text import TypedText
from tff_keyboard.evaluation.metrics import own_metrics
from tff_keyboard.evaluation.metrics.metric_table import Metric, metric_of
from tff_keyboard.evaluation.statistics.sums import federated_metrics
from tff_keyboard.predictors.keras_predictor import KerasPredictor
from tff_keyboard.training import client_inputs

POPULATION = "validation"

# `ModelWeights` -> sums, each an array over the clients of one store.
Evaluate = Callable[[Any], Mapping[str, np.ndarray]]


def federated(
    evaluator: FederatedEvaluator,
    config: EvaluationConfig,
    max_length: int,
    name_packs: Callable[[ClientStore, Sequence[Sequence[int]]], Any] | None = None,
) -> Callable[[ClientStore], Evaluate]:
    """Returns an evaluation of validation clients through TFF, as `evaluate_on` of `Validation`.

    `name_packs` returns packs by name for a store and groups of positions, for a cluster. None
    means their data.
    """

    def evaluate_on(store: ClientStore) -> Evaluate:
        clients = client_inputs.evaluation_clients_batches(
            store, POPULATION, config, max_length=max_length
        )
        hand_over = None if name_packs is None else functools.partial(name_packs, store)
        return lambda weights: evaluator(weights, clients, hand_over)

    return evaluate_on


def in_this_process(
    predictor: KerasPredictor, config: EvaluationConfig, max_length: int
) -> Callable[[ClientStore], Evaluate]:
    """Returns an evaluation of the same messages without TFF, as `evaluate_on` of `Validation`.

    `predictor` gets the weights before each evaluation. The metrics of the user are counted, too.
    """
    metrics = own_metrics.build(config.metrics)

    def evaluate_on(store: ClientStore) -> Evaluate:
        clients = client_inputs.evaluation_clients(store, POPULATION, config)
        messages_of_clients = [store.words(POPULATION, client) for client in clients]
        max_examples = config.max_examples
        samples = [
            [messages[i] for i in draw_positions(len(messages), max_examples, (0,))]
            for messages in messages_of_clients
        ]
        text = TypedText(POPULATION, tuple(clients), tuple(samples))

        def evaluate(weights: Any) -> Mapping[str, np.ndarray]:
            weights.assign_weights_to(predictor.model)
            counts = batch_evaluation.evaluate(
                predictor, text, max_length=max_length, metrics=metrics
            )
            return counts.sums

        return evaluate

    return evaluate_on


class Validation:
    """A function `(round number, weights) -> metrics` on the same clients every time.

    Args:
      store: The client store.
      general_store: The store of `fine_tuning.general_store`, if any.
      evaluate_on: Prepares the evaluation of a store: `federated` or `in_this_process`.
      user_weight: w of the module, in [0, 1].
      metrics: Metrics of the user. The evaluation counts their sums, too.
    """

    def __init__(
        self,
        store: ClientStore,
        general_store: ClientStore | None,
        evaluate_on: Callable[[ClientStore], Evaluate],
        user_weight: float,
        metrics: Sequence[Metric] = (),
    ):
        self._user_weight = user_weight
        self._own_metrics = {metric.name: metric for metric in metrics}
        stores = {"": store} if general_store is None else {"": store, "general/": general_store}
        self._evaluations = {prefix: evaluate_on(part) for prefix, part in stores.items()}

    def __call__(self, round_num: int, weights: Any) -> dict[str, float]:
        """Returns metrics of `weights`, a `ModelWeights`."""
        del round_num  # the same clients every time, so that rounds can be compared
        parts = {
            prefix: federated_metrics(evaluate(weights), list(self._own_metrics.values()))
            for prefix, evaluate in self._evaluations.items()
        }
        metrics = {
            f"{prefix}{name}": value for prefix, m in parts.items() for name, value in m.items()
        }
        if "general/" in parts:
            for name, user in parts[""].items():
                general = parts["general/"][name]
                metric = self._own_metrics.get(name, name)
                metrics[f"trade_off/{name}"] = trade_off(metric, user, general, self._user_weight)
        return metrics


def trade_off(metric: str | Metric, user: float, general: float, user_weight: float) -> float:
    """Returns the weighted mean of a metric; for a perplexity, the weighted geometric mean.

    >>> round(trade_off("perplexity", 60.0, 120.0, 0.5), 3)
    84.853
    """
    if metric_of(metric).is_perplexity:
        return user**user_weight * general ** (1 - user_weight)
    return user_weight * user + (1 - user_weight) * general
