"""Opens a training: its stores, run directory, engine, initial model, noise key and ledger.

Trainings with simulated clients (`federated.py`), with devices (`tff_keyboard_fleet/on_devices`)
and on pooled text (`central.py`) differ in their process and in the data of a round. All other
parts are opened here, in one order. Training on pooled text has neither engine nor noise.
"""

import contextlib
import dataclasses
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tff_keyboard import config as config_lib
from tff_keyboard.algorithms.cohorts import CohortSampler
from tff_keyboard.algorithms.rounds.noised import last_content_tag
from tff_keyboard.config import RunConfig, as_run
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.evaluation.metrics import own_metrics
from tff_keyboard.execution.engine import Engine
from tff_keyboard.host import progress
from tff_keyboard.models import NextWordModel
from tff_keyboard.parts import own_part
from tff_keyboard.parts.privacy_mechanism import PrivacyOptions
from tff_keyboard.privacy.ledger_hook import LedgerHook
from tff_keyboard.storage.metrics_rows import Row
from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard.training import build, run_stores
from tff_keyboard.training.loop import training_loop
from tff_keyboard.training.run_privacy import RunPrivacy
from tff_keyboard.training.train_run import open_run, recorded_config, train_run


@dataclasses.dataclass(frozen=True, kw_only=True)
class OpenTraining:
    """The open parts of a training.

    Attributes:
      config: The config, with the recorded number of rounds where the run has one.
      run: The locked run directory.
      store: The client store.
      general_store: The store of `fine_tuning.general_store`, if any.
      model: The model before training.
      privacy: Noise key, mechanism and ledger header of a private run.
    """

    config: RunConfig
    run: RunDirectory
    store: ClientStore
    general_store: ClientStore | None
    model: NextWordModel
    privacy: RunPrivacy | None

    def train(self, *, hooks: Sequence[training_loop.Hook] = (), **parts: Any) -> Row:
        """Trains to the end, with the ledger as the first hook of a private run.

        Args:
          hooks: Further hooks of the loop.
          **parts: Process, data and validation, see `train_run`.

        Returns:
          The last row of metrics.
        """
        ledger: list[training_loop.Hook] = []
        if self.privacy is not None:
            ledger.append(
                LedgerHook(
                    self.run.privacy_ledger, self.privacy.header, content_tag=last_content_tag
                )
            )
        settings = build.build_run_settings(self.config)
        with build.errors_of_rounds(self.config):
            return train_run(
                self.run, self.store, self.model, settings, hooks=[*ledger, *hooks], **parts
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class OpenFederatedTraining(OpenTraining):
    """The open parts of a training of clients.

    Attributes:
      engine: Computes packs of clients.
    """

    engine: Engine


@contextlib.contextmanager
def open_training(
    config: RunConfig,
    workdir: pathlib.Path,
    *,
    max_seats: int | None = None,
    allow_tff_server: bool = False,
    changes_client_work: bool = False,
) -> Iterator[OpenFederatedTraining]:
    """Opens a federated training in `workdir`, which is new or resumed.

    Args:
      config: Config of the run.
      workdir: The run directory.
      max_seats: The largest number of devices of a round, if clients are devices, which check in by
        themselves. None if clients are drawn from the client store.
      allow_tff_server: See `train_federated`.
      changes_client_work: Whether the caller changes the work of clients; see `origin.Origin`.

    Raises:
      ConfigError: The config does not fit.
      DataError: The store does not fit.
      SavedModelError: The initial model does not fit.
      NoiseKeyError, RunDirectoryError: The directory does not fit; see `open_run_privacy`.
    """
    run_stores.check_best_metric(config)
    store, general_store = run_stores.open_stores(config)
    config = as_run(config, recorded_config(workdir))
    build.check_own_parts(config, store.vocabulary)
    is_on_devices = max_seats is not None
    with (
        _open_run(
            config,
            workdir,
            store,
            general_store,
            config.aggregation.privacy,
            changes_client_work=changes_client_work,
            trains_on_store=not is_on_devices,
        ) as run,
        run_stores.open_engine(
            config, [store, general_store], allow_tff_server=allow_tff_server
        ) as engine,
    ):
        progress.step("building the round")
        model = build.build_initial_model(config, store.vocabulary)
        client_ids = None if is_on_devices else store.client_ids("train")
        if client_ids is not None:
            max_seats = CohortSampler(config.train, len(client_ids)).num_selected
        assert max_seats is not None
        general_sha256 = ""  # devices rehearse nothing
        if general_store is not None and not is_on_devices:
            general_sha256 = general_store.card["store_sha256"]
        privacy = build.build_privacy(
            config,
            run,
            store,
            model,
            client_ids=client_ids,
            selected_per_round=max_seats,
            general_sha256=general_sha256,
        )
        yield OpenFederatedTraining(
            config=config,
            run=run,
            store=store,
            general_store=general_store,
            engine=engine,
            model=model,
            privacy=privacy,
        )


@contextlib.contextmanager
def open_central_training(
    config: RunConfig,
    workdir: pathlib.Path,
    *,
    secret: PrivacyOptions,
    rounds: Callable[[ClientStore, ClientStore | None], int],
) -> Iterator[OpenTraining]:
    """Opens a training on pooled text in `workdir`, which is new or resumed.

    Args:
      config: Config of the run, without noise.
      workdir: The run directory.
      secret: The mechanism whose secret salts the digests of the clients.
      rounds: Function from the client store and the general store to the number of rounds. A
        resumed run has at least the recorded number.

    Raises:
      ConfigError, DataError, SavedModelError, RunDirectoryError: As `open_training`.
    """
    run_stores.check_best_metric(config)
    store, general_store = run_stores.open_stores(config)
    own_metrics.check(config.evaluation.metrics, store.vocabulary)
    train = dataclasses.replace(config.train, rounds=rounds(store, general_store))
    config = as_run(dataclasses.replace(config, train=train), recorded_config(workdir))
    model = build.build_initial_model(config, store.vocabulary)
    with _open_run(config, workdir, store, general_store, secret) as run:
        yield OpenTraining(
            config=config,
            run=run,
            store=store,
            general_store=general_store,
            model=model,
            privacy=None,
        )


def _open_run(
    config: RunConfig,
    workdir: pathlib.Path,
    store: ClientStore,
    general_store: ClientStore | None,
    secret: PrivacyOptions,
    **origin: bool,
) -> RunDirectory:
    return open_run(
        workdir,
        config_lib.dump(config),
        secret,
        store,
        general_store,
        own_parts=own_part.sources_of(config),
        unknown_weights=config.model.unknown_weights,
        **origin,
    )
