"""Federated training of a run: puts the parts of `build.py` together."""

import pathlib
from typing import Any

from tff_keyboard import config as config_lib
from tff_keyboard.algorithms import cohort_batcher
from tff_keyboard.algorithms.cohorts import CohortSampler
from tff_keyboard.algorithms.federated_evaluation import FederatedEvaluator
from tff_keyboard.config import RunConfig, with_rounds
from tff_keyboard.host import progress
from tff_keyboard.privacy.ledger_hook import LedgerHook
from tff_keyboard.storage.metrics_rows import Row
from tff_keyboard.training import build
from tff_keyboard.training.build import WrapClientWork
from tff_keyboard.training.loop import training_loop
from tff_keyboard.training.train_run import open_run, recorded_config, train_run


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
    build.check_best_metric(config)
    store, general_store = build.open_stores(config)
    config = with_rounds(config, recorded_config(workdir))
    text, mechanism = config_lib.dump(config), config.aggregation.privacy
    with (
        open_run(workdir, text, mechanism, store, general_store) as run,
        build.open_engine(config, [store, general_store]) as engine,
    ):
        progress.step("building the round")
        model = build.build_initial_model(config, store.vocabulary)
        client_ids = store.client_ids("train")
        privacy = build.build_privacy(
            config,
            run,
            store,
            model,
            client_ids=client_ids,
            selected_per_round=CohortSampler(config.train, len(client_ids)).num_selected,
            general_sha256=general_store.card["store_sha256"] if general_store else "",
        )
        cohorts = build.build_cohorts(
            config,
            store,
            build.build_rehearsal(config, general_store),
            cohort_key=privacy.cohort_key if privacy else b"",
            num_parameters=model.count_params(),
        )
        hooks: list[training_loop.Hook] = []
        if privacy:
            hooks.append(LedgerHook(run.privacy_ledger, privacy.header))
        process = build.build_process(
            config,
            model,
            wrap_client_work=wrap_client_work,
            build_noise=privacy.build_noise if privacy else None,
            joined=True,
        )
        prepared = cohort_batcher.prepare_process(
            process, clients_per_pack=config.execution.clients_per_pack, engine=engine
        )
        recipe = None  # names clients for the nodes of a cluster
        if config.execution.engine != "local":
            recipe = build.build_recipe(config, store, general_store)

        def round_input(round_num: int) -> tuple[Any, Row]:
            if recipe is None:
                return cohorts.round_input(round_num, prepared.batcher)
            groups, facts = cohorts.round_plan(round_num, prepared.batcher)
            return recipe.train_packs(prepared.batcher, round_num, groups), facts

        evaluator = FederatedEvaluator(
            build.build_model_fn(config, len(store.vocabulary), evaluation=True), engine=engine
        )
        progress.step("computing the first round")
        return train_run(
            run,
            store,
            model,
            build.build_run_settings(config),
            process=build.with_schedules(prepared.process, config),
            round_input=round_input,
            evaluate=build.build_validation(config, store, general_store, evaluator, recipe),
            hooks=hooks,
            pop_aggregation_seconds=prepared.pop_aggregation_seconds,
        )
