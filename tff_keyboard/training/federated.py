"""Federated training of a run: builds the arguments of `train_run` from the config."""

import pathlib
from collections.abc import Callable
from typing import Any

from tff_keyboard.algorithms import cohort_batcher, federated_evaluation, schedules
from tff_keyboard.algorithms.cohorts import CohortSampler
from tff_keyboard.algorithms.fine_tuning import rehearsal
from tff_keyboard.algorithms.round_process import RoundProcess
from tff_keyboard.config import RunConfig
from tff_keyboard.config.resolved_schedules import with_rounds
from tff_keyboard.config.sections.learning_config import FedAvgClient, ServerConfig
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.host import progress
from tff_keyboard.models import NextWordModel
from tff_keyboard.models.saved_model import weights_by_name
from tff_keyboard.privacy.ledger_hook import LedgerHook
from tff_keyboard.storage.metrics_rows import Row
from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard.training import build_process, client_inputs, validation
from tff_keyboard.training.build_process import WrapClientWork
from tff_keyboard.training.loop import training_loop
from tff_keyboard.training.loop.scheduled_process import ScheduledProcess
from tff_keyboard.training.on_cluster import execution_engine
from tff_keyboard.training.on_cluster.client_references import Recipe
from tff_keyboard.training.run_privacy import RunPrivacy, open_run_privacy
from tff_keyboard.training.train_run import check_best_metric, open_run, recorded_config, train_run


def train_federated(
    config: RunConfig, workdir: pathlib.Path, *, wrap_client_work: WrapClientWork | None = None
) -> Row:
    """Trains in `workdir`, or resumes the training there.

    Args:
      config: Config of the run.
      workdir: The run directory.
      wrap_client_work: Changes the work of clients, for simulations of attacks. The run directory
        does not record it, so a resumed run must get the same one.

    Returns:
      The last row of metrics.

    Raises:
      ConfigError: The config does not fit.
      DataError: The store does not fit.
      SavedModelError: The initial model does not fit.
    """
    check_best_metric(config, validation.metric_names(config))
    store, general_store = validation.open_stores(config)
    recorded = recorded_config(workdir)
    config = with_rounds(config, recorded)
    with (
        open_run(config, workdir, store, general_store) as run,
        execution_engine.opened(config, [store, general_store]) as engine,
    ):
        progress.step("building the round")
        model = build_process.build_initial_model(config, store.vocabulary)
        privacy = _privacy(config, run, store, general_store, model)
        cohorts = client_inputs.CohortInputs(
            config,
            store,
            rehearsal.build_rehearsal(config.fine_tuning, general_store),
            cohort_key=privacy.cohort_key if privacy else b"",
            num_parameters=model.count_params(),
        )
        hooks: list[training_loop.Hook] = []
        if privacy:
            hooks = [LedgerHook(run.privacy_ledger, privacy.header)]
        process = build_process.build_process(
            config,
            model,
            wrap_client_work=wrap_client_work,
            general_store=general_store,
            build_noise=privacy.build_noise if privacy else None,
            joined=True,
        )
        named = execution_engine.by_name(config, store, general_store)
        prepared = cohort_batcher.prepare_process(
            process, clients_per_pack=config.execution.clients_per_pack, engine=engine
        )
        name_packs = named.evaluation_packs if named else None
        evaluator = federated_evaluation.FederatedEvaluator(
            build_process.build_model_fn(config, len(store.vocabulary), evaluation=True),
            engine=engine,
        )
        progress.step("computing the first round")
        return train_run(
            config,
            run,
            store,
            model,
            process=with_schedules(prepared.process, config),
            round_input=_round_input(cohorts, prepared.batcher, named),
            evaluate=validation.Validation(
                config, store, general_store, validation.federated(evaluator, config, name_packs)
            ),
            hooks=hooks,
            pop_aggregation_seconds=prepared.pop_aggregation_seconds,
        )


def _round_input(
    cohorts: client_inputs.CohortInputs, batcher: cohort_batcher.CohortBatcher, named: Recipe | None
) -> Callable[[int], tuple[Any, Row]]:
    """Returns a function from a round to its clients: their data, or their names for a cluster."""
    if named is None:
        return lambda round_num: cohorts.round_input(round_num, batcher)

    def round_input(round_num: int) -> tuple[Any, Row]:
        groups, facts = cohorts.round_plan(round_num, batcher)
        return named.train_packs(batcher, round_num, groups), facts

    return round_input


def with_schedules(
    process: RoundProcess, config: RunConfig, *, of_clients: bool = True
) -> RoundProcess:
    """Returns `process` with the learning rates of each round, or `process` if they are constant.

    Args:
      process: A learning process.
      config: Config of the run.
      of_clients: Whether its clients train here. Clients on devices get their rates from a plan.
    """
    tables: dict[str, ServerConfig | FedAvgClient] = {"finalizer": config.server}
    if of_clients and isinstance(config.client, FedAvgClient):
        tables["client_work"] = config.client
    if all(schedules.is_constant(table.schedule) for table in tables.values()):
        return process

    def rates(round_num: int) -> dict[str, float]:
        return {
            part: table.learning_rate * schedules.factor(table.schedule, round_num)
            for part, table in tables.items()
        }

    return ScheduledProcess(process, rates)


def _privacy(
    config: RunConfig,
    run: RunDirectory,
    store: ClientStore,
    general_store: ClientStore | None,
    model: NextWordModel,
) -> RunPrivacy | None:
    if not config.aggregation.is_private:
        return None
    client_ids = store.client_ids("train")
    return open_run_privacy(
        config,
        ledger_path=run.privacy_ledger,
        nonce_path=run.noise_nonce,
        store_card=store.card,
        client_ids=client_ids,
        initial_weights=list(weights_by_name(model).values()),
        selected_per_round=CohortSampler(config.train, len(client_ids)).num_selected,
        general_sha256=general_store.card["store_sha256"] if general_store else "",
    )
