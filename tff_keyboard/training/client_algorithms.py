"""Builds the learning process of `client.type`: one function for each client algorithm.

To add an algorithm, add a table to `config/sections/learning_config.py`, a function here and its
case in `build_learning_process`.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import TypeAlias, assert_never

import tensorflow_federated as tff

from tff_keyboard.aggregators.processes import Factory
from tff_keyboard.algorithms import fed_avg, fed_sgd
from tff_keyboard.algorithms.client_training import TouchedTableRows
from tff_keyboard.algorithms.composition import ClientWork, ModelFn, compose_process
from tff_keyboard.algorithms.optimizers import optimizers
from tff_keyboard.config.sections.aggregation_config import AggregationConfig, FedSubAvgConfig
from tff_keyboard.config.sections.learning_config import (
    ClientConfig,
    FedAvgClient,
    FedSgdClient,
    OwnClient,
)
from tff_keyboard.parts import calls
from tff_keyboard.parts.aggregator import AggregatorRun

Process: TypeAlias = tff.learning.templates.LearningProcess
WrapClientWork: TypeAlias = Callable[[ClientWork], ClientWork]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProcessParts:
    """What a client algorithm is composed with.

    Attributes:
      model_fn: Builds the model that clients train.
      vocabulary_size: Rows of the word table.
      table: The table `[aggregation]`.
      run: The values that the run gives to its parts.
      rule: The aggregator alone.
      aggregator: The aggregator with its protection.
      server_optimizer: The optimizer of `[server]`.
      wrap_client_work: Changes the work of clients, for simulations of attacks.
      joined: Whether clients may have joined batches (`data/elements.py`).
    """

    model_fn: ModelFn
    vocabulary_size: int
    table: AggregationConfig
    run: AggregatorRun
    rule: Factory
    aggregator: Factory
    server_optimizer: tff.learning.optimizers.Optimizer
    wrap_client_work: WrapClientWork | None
    joined: bool


def build_learning_process(client: ClientConfig, parts: ProcessParts) -> Process:
    """Builds the learning process of a client algorithm.

    Raises:
      ConfigError: The user's own part raises an error, or returns an object of another kind.
      ValueError: The algorithm has no client work to wrap.
    """
    if parts.wrap_client_work is not None and not isinstance(client, FedAvgClient):
        raise ValueError(
            f"`client.type` = {client.type!r} has no client work to wrap. Use 'fedavg'."
        )
    match client:
        case FedAvgClient():
            return _fed_avg(client, parts)
        case FedSgdClient():
            return fed_sgd.build_fed_sgd(
                parts.model_fn,
                server_optimizer=parts.server_optimizer,
                aggregator=parts.aggregator,
            )
        case OwnClient():
            return _own(client, parts)
    assert_never(client)  # mypy reports a table without a case


def _fed_avg(client: FedAvgClient, parts: ProcessParts) -> Process:
    """Builds FedAvg, or the process that the aggregator needs (FedMed)."""
    build: Callable[..., Process]
    if parts.table.rule.learning_process:
        build = functools.partial(calls.load(parts.table.rule.learning_process), factory=parts.rule)
    else:
        touched_rows = None
        if isinstance(parts.table.row_correction, FedSubAvgConfig):
            touched_rows = TouchedTableRows(
                parts.vocabulary_size, lambda batch: (batch["x"], batch["y"])
            )
        build = functools.partial(fed_avg.build_fed_avg, touched_rows=touched_rows)
    return build(
        parts.model_fn,
        aggregator=parts.aggregator,
        client_optimizer=optimizers.build_client_optimizer(client),
        server_optimizer=parts.server_optimizer,
        uniform_weights=parts.table.client_weighting == "uniform",
        wrap_client_work=parts.wrap_client_work,
        joined=parts.joined and parts.wrap_client_work is None,
    )


def _own(client: OwnClient, parts: ProcessParts) -> Process:
    """Builds the user's own learning process, or composes one with the user's own client work."""
    values = {
        "model_fn": parts.model_fn,
        "aggregator": parts.aggregator,
        "server_optimizer": parts.server_optimizer,
        "seed": parts.run.seed,
        "clients_per_round": parts.run.clients_per_round,
        "vocabulary_size": parts.vocabulary_size,
        "batch_size": client.batch_size,
        "max_examples": client.max_examples,
        "epochs": client.epochs,
    }
    process = client.call(values)
    if isinstance(process, tff.learning.templates.ClientWorkProcess):
        with client.errors():
            return compose_process(
                parts.model_fn,
                client_work=process,
                server_optimizer=parts.server_optimizer,
                aggregator=parts.aggregator,
            )
    client.must_be(
        isinstance(process, tff.learning.templates.LearningProcess),
        "a `tff.learning.templates.LearningProcess` or `ClientWorkProcess`",
        process,
    )
    return process
