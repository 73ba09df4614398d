"""Federated training whose clients are devices: `training/federated.py` with two parts exchanged.

The client work takes uploads instead of text (`upload_work.py`), and the cohort consists of the
devices that checked in (`device_rounds.py`). Process, aggregation, noise, ledger, guards,
checkpoints, metrics and validation are the same code. The client store provides the vocabulary and
the validation text; the model is not trained on its clients.
"""

import contextlib
import functools
import pathlib
import time
from collections.abc import Callable

from tff_keyboard.algorithms import federated_evaluation
from tff_keyboard.algorithms.cohort_batcher import prepare_process
from tff_keyboard.algorithms.rounds.round_process import chain
from tff_keyboard.config import RunConfig
from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.models.saved_model import weights_by_name
from tff_keyboard.storage import files
from tff_keyboard.storage.metrics_rows import Row
from tff_keyboard.training import build, process_transforms
from tff_keyboard.training.loop import training_loop
from tff_keyboard.training.open_training import open_training
from tff_keyboard_fleet.on_devices.device_rounds import DeviceRounds
from tff_keyboard_fleet.on_devices.served_config import (
    as_decoded,
    as_served,
    plan_of,
    round_settings_of,
)
from tff_keyboard_fleet.on_devices.served_files import (
    GRAPH,
    SERVER_KEY,
    TrainingGraphBuilder,
    graph_of_run,
    wire_order,
)
from tff_keyboard_fleet.on_devices.upload_work import build_upload_work, hand_over
from tff_keyboard_fleet.round_server.app import Population, RoundApplication
from tff_keyboard_fleet.round_server.blobs import Blobs
from tff_keyboard_fleet.round_server.round_store import RoundStore
from tff_keyboard_fleet.round_server.secure_rounds import SecureRoundStore
from tff_keyboard_fleet.wire import keys, weights

# Serves the application until the training ends.
Serve = Callable[[RoundApplication], contextlib.AbstractContextManager[None]]


def serve_federated(
    config: RunConfig,
    workdir: pathlib.Path,
    *,
    serve: Serve,
    graph: TrainingGraphBuilder,
    clock: Callable[[], float] = time.time,
) -> Row:
    """Trains in `workdir` on the uploads of devices. Called again, it resumes.

    Args:
      config: The config. It may only use features that devices support (`served_config.as_served`).
      workdir: The run directory.
      serve: Serves the application until the training ends.
      graph: Builds the file that devices train.
      clock: Returns seconds since 1970.

    Returns:
      The last row of metrics, as in `metrics.jsonl`.

    Raises:
      ConfigError, DataError, SavedModelError: If the config, the store or the initial model does
      not fit.
    """
    served = as_served(config)
    with open_training(served, workdir, max_seats=round_settings_of(served).max_seats) as training:
        config, run, store, model = training.config, training.run, training.store, training.model
        initial = weights_by_name(model)
        learning_process = build.build_process(
            as_decoded(config),
            model,
            wrap_client_work=functools.partial(
                build_upload_work,
                uniform_weights=config.aggregation.client_weighting == "uniform",
                tells_loss=bool(config.aggregation.rule.reported_loss),
            ),
            takes_sums=config.devices.secure_sums,
        )
        prepared = prepare_process(
            learning_process,
            clients_per_pack=config.execution.clients_per_pack,
            engine=training.engine,
        )
        transforms = process_transforms.round_transforms(
            config, model, training.privacy, is_on_devices=True
        )
        evaluator = federated_evaluation.FederatedEvaluator(
            build.build_model_fn(config, len(store.vocabulary), evaluation=True),
            engine=training.engine,
        )
        parameters = model.count_params()
        folder = run.round_server
        files.make_directory(folder, mode=0o700, is_part=True)
        blobs = Blobs(folder / "blobs")
        graph_hash = blobs.keep(
            graph_of_run(graph, folder / GRAPH, run.path, model, store.vocabulary)
        )
        rows = list(graph.rows(store.vocabulary))
        words = Vocabulary([store.vocabulary.words[row] for row in rows], store.vocabulary.rules)
        with contextlib.closing(_round_store(config, folder, parameters, clock)) as round_store:
            rounds = DeviceRounds(
                round_store,
                blobs,
                initial=weights.to_vector(list(initial.values())),
                order=wire_order({name: w.shape for name, w in initial.items()}, rows),
                plan_of=lambda round_num: plan_of(
                    config,
                    round_num,
                    vocabulary=words.fingerprint,
                    graph=graph_hash,
                    parameters=parameters,
                ),
                hand_over=functools.partial(
                    hand_over, batcher=prepared.batcher, parameters=parameters
                ),
                total_rounds=config.train.rounds,
                graph=graph_hash,
                is_private=config.aggregation.is_private,
            )
            key = keys.open_key(folder / SERVER_KEY)
            app = RoundApplication(
                round_store,
                blobs,
                Population(
                    name=config.devices.population,
                    run=round_store.run_id,
                    parameters=parameters,
                    codec=rounds.codec,
                ),
                key,
                clock,
            )
            with serve(app), contextlib.closing(rounds):
                return training.train(
                    process=chain(prepared.process, transforms),
                    round_input=rounds.round_input,
                    evaluate=build.build_validation(
                        config, store, training.general_store, evaluator
                    ),
                    hooks=[rounds],
                    pop_aggregation_seconds=prepared.pop_aggregation_seconds,
                    around_lines=lambda lines: _then(lines, rounds.released),
                )


def _round_store(
    config: RunConfig, folder: pathlib.Path, parameters: int, clock: Callable[[], float]
) -> RoundStore:
    round_settings = round_settings_of(config, parameters)
    return (SecureRoundStore if round_settings.sums else RoundStore)(folder, round_settings, clock)


def _then(
    lines: Callable[[training_loop.RoundProgress], None],
    released: Callable[[training_loop.RoundProgress], None],
) -> Callable[[training_loop.RoundProgress], None]:
    """Returns a function that prints the lines of a round and then releases it."""

    def done(round_: training_loop.RoundProgress) -> None:
        lines(round_)
        released(round_)

    return done
