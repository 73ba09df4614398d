"""The metrics of a validation: users, and the general population where there is one.

    recall_at_1_no_eos, perplexity, ...        of the users' validation clients
    general/recall_at_1_no_eos, ...            of the general corpus's validation clients
    trade_off/recall_at_1_no_eos, ...          w * users + (1 - w) * general, w = user_weight
    kss, general/kss, trade_off/kss, ...       with `evaluation.keystroke_words`

With w = 0.5 `trade_off/perplexity` is the average perplexity of Popov et al. 2018, Table 1,
https://arxiv.org/abs/1712.07473.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tff_keyboard.config import RunConfig
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.evaluation import evaluation_sums, predictor_evaluation
from tff_keyboard.evaluation.typed_text import TypedText
from tff_keyboard.learning.client_inputs import evaluation_clients, evaluation_datasets
from tff_keyboard.learning.federated_evaluation import FederatedEvaluator
from tff_keyboard.metrics.keras_predictor import KerasPredictor
from tff_keyboard.models import build_model
from tff_keyboard.storage.errors import DataError

KEYSTROKE_METRICS = ("kss", "kss_selection_counted")


def metric_names(config: RunConfig) -> list[str]:
    """What a validation of this run reports, and so what `train.best_metric` may be."""
    names = [*evaluation_sums.RATIOS, *evaluation_sums.PERPLEXITIES]
    if config.evaluation.keystroke_words:
        names += KEYSTROKE_METRICS
    if config.fine_tuning.general_store:
        names += [f"{part}/{name}" for part in ("general", "trade_off") for name in names]
    return names


def open_general_store(config: RunConfig, store: ClientStore) -> ClientStore | None:
    """The store of `fine_tuning.general_store`, None where none is named.

    Raises:
      DataError: It is no store, or has another vocabulary than the users'.
    """
    if not config.fine_tuning.general_store:
        return None
    general = ClientStore(config.fine_tuning.general_store)
    if general.vocabulary != store.vocabulary:
        raise DataError(
            f"`fine_tuning.general_store` = '{general.directory}' has another vocabulary than "
            f"{store.directory}. Prepare both with the same `data.vocabulary_path`."
        )
    return general


class Validation:
    """`(round number, weights) -> metrics` on the same clients every time.

    Args:
      config: Of the run.
      store: The users' text.
      general_store: The general text, or None.
      evaluator: `(weights, datasets) -> sums per client`.
    """

    def __init__(
        self,
        config: RunConfig,
        store: ClientStore,
        general_store: ClientStore | None,
        evaluator: FederatedEvaluator | Callable[[Any, Any], Mapping[str, np.ndarray]],
    ):
        self._user_weight = config.fine_tuning.user_weight
        self._max_length = config.data.max_length
        self._evaluator = evaluator
        stores = {"": store} if general_store is None else {"": store, "general/": general_store}
        self._datasets = {
            prefix: evaluation_datasets(
                part, "validation", config.evaluation, max_length=config.data.max_length
            )
            for prefix, part in stores.items()
        }
        self._texts: dict[str, TypedText] = {}
        if config.evaluation.keystroke_words:
            self._texts = {prefix: _text(part, config) for prefix, part in stores.items()}
            self._model = build_model(
                config.model.name,
                vocabulary_size=len(store.vocabulary),
                seed=config.train.seed,
                **config.model.options(),
            )
            self._predictor = KerasPredictor(self._model, store.vocabulary)

    def __call__(self, round_num: int, weights: Any) -> dict[str, float]:
        """Metrics of `weights`, a `ModelWeights`."""
        del round_num  # the same clients every time, so that rounds can be compared
        parts = {
            prefix: evaluation_sums.finalize(self._evaluator(weights, datasets))
            for prefix, datasets in self._datasets.items()
        }
        if self._texts:
            weights.assign_weights_to(self._model)
        for prefix, text in self._texts.items():
            sums = predictor_evaluation.evaluate(self._predictor, text, max_length=self._max_length)
            for name in KEYSTROKE_METRICS:
                above, below = predictor_evaluation.PREDICTOR_RATIOS[name]
                totals = {key: np.sum(values) for key, values in sums.items()}
                parts[prefix][name] = float(
                    evaluation_sums.combine(totals, above) / evaluation_sums.combine(totals, below)
                )
        metrics = {
            f"{prefix}{name}": value for prefix, m in parts.items() for name, value in m.items()
        }
        if "general/" in parts:
            for name, user in parts[""].items():
                general = parts["general/"][name]
                metrics[f"trade_off/{name}"] = (
                    self._user_weight * user + (1 - self._user_weight) * general
                )
        return metrics


def _text(store: ClientStore, config: RunConfig) -> TypedText:
    """The messages of validation clients, in turn, until there are enough words.

    The first message of each client, then the second of each, and so on: few words of many people
    say more than many words of few.
    """
    wanted = config.evaluation.keystroke_words
    people = evaluation_clients(store, "validation", config.evaluation)
    typed = [store.words("validation", person) for person in people]
    chosen: list[list[list[str]]] = [[] for _ in people]
    words = turn = 0
    while words < wanted and any(turn < len(messages) for messages in typed):
        for own, messages in zip(chosen, typed, strict=True):
            if turn < len(messages) and words < wanted:
                own.append(messages[turn])
                words += len(messages[turn])
        turn += 1
    return TypedText("validation", tuple(people), tuple(chosen))
