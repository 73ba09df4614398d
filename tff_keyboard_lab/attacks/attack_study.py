"""Trains several aggregators, clean and under each attack, and resumes after an interruption.

Trainings keep their last model and never stop early: choosing the best model on validation would
hide an attack that came later, and so would stopping early.
"""

import dataclasses
import functools
import json
import pathlib
from collections.abc import Mapping, Sequence

from tff_keyboard.algorithms.cohorts import share_of_cohorts
from tff_keyboard.config import RunConfig
from tff_keyboard.config.sections.aggregation_config import NoClipping
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.evaluation.results.result import Evaluation
from tff_keyboard.evaluation.run_evaluation import cached_evaluation
from tff_keyboard.models.saved_model import load_model
from tff_keyboard.predictors.keras_predictor import KerasPredictor
from tff_keyboard.storage import files
from tff_keyboard.storage.errors import ConfigError, UsageError
from tff_keyboard.storage.metrics_rows import total
from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard.training.federated import train_federated
from tff_keyboard_lab import file_names
from tff_keyboard_lab.attacks import attackers as attacks_lib
from tff_keyboard_lab.attacks import backdoor
from tff_keyboard_lab.attacks.attack_names import (
    ATTACK_NAMES,
    BACKDOORS,
    COLLUDING,
    TARGET,
    TRIGGER,
    check_server_is_allowed,
)
from tff_keyboard_lab.attacks.attack_report import POPULATIONS, Row, figures

CLEAN = "clean"
UNPROTECTED = "_unprotected"  # suffix of the name of a variant


def study_attacks(
    configs: Mapping[str, RunConfig],
    workdir: pathlib.Path,
    *,
    attacks: Sequence[str] = ATTACK_NAMES,
    share: float = 0.1,
    unprotected: bool = False,
    allow_tff_server: bool = False,
) -> list[Row]:
    """Trains and evaluates the runs that are not finished, and writes the results after each run.

    Args:
      configs: Name of an aggregator -> config. The name becomes a folder.
      workdir: Folder of the runs: WORKDIR/<rule>/<attack>/run.
      attacks: Names from `ATTACK_NAMES`. The clean run is always included.
      share: Share of the accounts that attack, in [0, 1]. If clients check in by the amount of
        text, attackers claim so much that they get the largest share of the cohorts that
        `train.max_sampling_ratio` allows.
      unprotected: Whether each aggregator is also run without zeroing and clipping.
      allow_tff_server: Whether the attacks of `COLLUDING` may start TFF's own server, which listens
        on all network interfaces, without a password. They cannot run without it.

    Raises:
      ConfigError: If a config fixes its nonce, has no client work, or has too few words for a
        backdoor.
      UsageError: If WORKDIR has runs of another attack, or an attack needs the server.
    """
    rules = variants(configs, unprotected)
    for config in configs.values():
        _check(config, has_backdoor=bool(set(attacks) & set(BACKDOORS)))
    check_server_is_allowed(attacks, allow_tff_server)
    for rule, config in rules.items():  # all of them before the first training
        for attack in attacks:
            seed = config.train.seed
            _mark(workdir / rule / attack, {"attack": attack, "share": share, "seed": seed})
    rows: list[Row] = []
    for rule, config in rules.items():
        clean: dict[str, Evaluation] | None = None
        for attack in (CLEAN, *dict.fromkeys(attacks)):
            print(f"== {rule}, {attack}", flush=True)
            path = _train(
                config, workdir / rule / attack, attack, share, allow_tff_server=allow_tff_server
            )
            results = {people: cached_evaluation(path, people) for people in POPULATIONS}
            run_rows = RunDirectory(path).all_rows()
            shows_hit = attack in BACKDOORS or (attack == CLEAN and set(attacks) & set(BACKDOORS))
            rows.append(
                Row(
                    rule=rule,
                    attack=attack,
                    share=0.0 if attack == CLEAN else share,
                    share_of_seats=0.0
                    if attack == CLEAN
                    else share_of_cohorts(config.train, share),
                    seed=config.train.seed,
                    rounds=len(run_rows),
                    clients_per_round=config.train.clients_per_round,
                    refused_updates=int(total(run_rows, "refused_non_finite")),
                    impossible_claims=int(total(run_rows, "impossible_claims")),
                    capped_weights=int(total(run_rows, "capped_weights")),
                    rejected_rounds=int(total(run_rows, "rejected")),
                    figures=figures(results, clean, _hits(config, path) if shows_hit else None),
                )
            )
            clean = clean or results
            content = json.dumps([row.to_json() for row in rows], indent=1)
            figures_path = workdir / file_names.ATTACKS  # with totals that a private run withholds
            files.write_atomically(figures_path, [content.encode()], mode=files.OWNER_ONLY)
    return rows


def variants(configs: Mapping[str, RunConfig], unprotected: bool) -> dict[str, RunConfig]:
    """Returns the trainings to attack by name: as configured and, if asked for, without protection.

    A config without protection has no second variant.
    """
    trainings = {}
    for name, config in configs.items():
        rounds = config.train.rounds
        fixed = dataclasses.replace(
            config.train, final_model="last", early_stop_patience=0, max_rejected_rounds=rounds
        )
        trainings[name] = dataclasses.replace(config, train=fixed)
        if unprotected and config.aggregation.resolved_protection != NoClipping():
            bare = dataclasses.replace(config.aggregation, protection=NoClipping())
            trainings[name + UNPROTECTED] = dataclasses.replace(trainings[name], aggregation=bare)
    return trainings


def _train(
    config: RunConfig,
    folder: pathlib.Path,
    attack: str,
    share: float,
    *,
    allow_tff_server: bool = False,
) -> pathlib.Path:
    """Trains in `folder`/run unless that is finished, and returns its path."""
    wrap = None
    if attack in COLLUDING:
        # Colluders see the whole round, but a pack has only a part: use TFF's own context.
        execution = dataclasses.replace(config.execution, engine="local")
        config = dataclasses.replace(config, execution=execution)
    if attack != CLEAN:
        wrap = functools.partial(
            attacks_lib.build_attacked_client_work,
            attack=attack,
            share=share_of_cohorts(config.train, share),
            seed=config.train.seed,
        )
    train_federated(
        config,
        folder / "run",
        wrap_client_work=wrap,
        allow_tff_server=allow_tff_server and attack in COLLUDING,
    )
    return folder / "run"


def _hits(config: RunConfig, path: pathlib.Path) -> dict[str, float]:
    """Returns, by population, how often the trigger leads to the attackers' word."""
    predictor, store = KerasPredictor(*load_model(path)), ClientStore(config.data.store)
    return {
        people: backdoor.hit_rate(predictor, store, people, trigger=TRIGGER, target=TARGET)
        for people in POPULATIONS
    }


def _check(config: RunConfig, *, has_backdoor: bool) -> None:
    """Raises `ConfigError` if runs with and without attackers cannot be compared."""
    # The attack is not part of the config: with a fixed nonce, all runs would have the same noise.
    if getattr(config.aggregation.privacy, "fixed_nonce", ""):
        raise ConfigError(
            "`aggregation.privacy.fixed_nonce` must be '' here: the runs with and without "
            "attackers would have the same noise, which cancels between their models. Leave it "
            "out."
        )
    config.client.check_wrapping()
    if has_backdoor and (size := len(ClientStore(config.data.store).vocabulary)) <= TARGET:
        raise ConfigError(
            f"{config.data.store} must have more than {TARGET} rows of vocabulary for a backdoor, "
            f"got {size}. Prepare it with a larger `data.vocabulary_size`, or leave backdoors out."
        )


def _mark(folder: pathlib.Path, facts: Mapping[str, str | float]) -> None:
    """Writes which attack the run in `folder` has, or checks that it is the same attack."""
    path = folder / file_names.ATTACK
    if not path.exists():
        if (folder / "run").exists():
            raise UsageError(
                f"{folder} has a run but no {file_names.ATTACK}, so its attack is unknown. "
                "Pass another --workdir."
            )
        files.make_directory(folder)
        files.write_atomically(path, [json.dumps(facts).encode()], mode=files.OWNER_ONLY)
        return
    before = files.read_json(path)
    if before != facts:
        raise UsageError(
            f"{folder} was started with {before}, which is {facts} now. Pass another --workdir."
        )
