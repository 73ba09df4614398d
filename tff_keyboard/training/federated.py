"""Federated training of a run on simulated clients: puts the parts of `build.py` together."""

import pathlib

from tff_keyboard.algorithms.cohort_batcher import prepare_process
from tff_keyboard.algorithms.composition import WrapClientWork
from tff_keyboard.algorithms.federated_evaluation import FederatedEvaluator
from tff_keyboard.algorithms.rounds.round_process import RoundInput, chain
from tff_keyboard.config import RunConfig
from tff_keyboard.host import progress
from tff_keyboard.storage.metrics_rows import Row
from tff_keyboard.training import build, process_transforms
from tff_keyboard.training.open_training import open_training


def train_federated(
    config: RunConfig,
    workdir: pathlib.Path,
    *,
    wrap_client_work: WrapClientWork | None = None,
    allow_tff_server: bool = False,
) -> Row:
    """Trains in `workdir`, or resumes the training there.

    Args:
      config: Config of the run.
      workdir: The run directory.
      wrap_client_work: Changes the work of clients, for simulations of attacks. The run directory
        records only that there is one, so a resumed run must get the same one.
      allow_tff_server: Whether rounds that cannot run in this process run in TFF's own server,
        which listens on all network interfaces, without a password. No config needs it, but some
        `wrap_client_work` do.

    Returns:
      The last row of metrics.

    Raises:
      ConfigError: The config does not fit.
      DataError: The store does not fit.
      SavedModelError: The initial model does not fit.
    """
    with open_training(
        config,
        workdir,
        allow_tff_server=allow_tff_server,
        changes_client_work=wrap_client_work is not None,
    ) as training:
        config, store, privacy = training.config, training.store, training.privacy
        learning_process = build.build_process(
            config, training.model, wrap_client_work=wrap_client_work, joined=True
        )
        prepared = prepare_process(
            learning_process,
            clients_per_pack=process_transforms.clients_per_pack(config),
            engine=training.engine,
            allow_tff_server=allow_tff_server,
        )
        batcher = prepared.batcher
        cohorts = build.build_cohorts(
            config,
            store,
            build.build_rehearsal(config, training.general_store),
            cohort_key=privacy.cohort_key if privacy else b"",
            num_parameters=training.model.count_params(),
        )
        recipe = None  # names clients for the nodes of a cluster
        if config.execution.engine != "local":
            recipe = build.build_recipe(config, store, training.general_store)

        def round_input(round_num: int) -> RoundInput:
            if recipe is None:
                return cohorts.round_input(round_num, batcher)
            groups, facts = cohorts.round_plan(round_num, batcher)
            return RoundInput(recipe.train_packs(batcher, round_num, groups), facts)

        evaluator = FederatedEvaluator(
            build.build_model_fn(config, len(store.vocabulary), evaluation=True),
            engine=training.engine,
        )
        progress.step("computing the first round")
        transforms = process_transforms.round_transforms(
            config, training.model, privacy, training.general_store
        )
        return training.train(
            process=chain(prepared.process, transforms),
            round_input=round_input,
            evaluate=build.build_validation(
                config, store, training.general_store, evaluator, recipe
            ),
            pop_aggregation_seconds=prepared.pop_aggregation_seconds,
        )
