"""Sets the rounds of cosine schedules that leave them open to `train.rounds` when a run begins."""

import dataclasses
from typing import Any

from tff_keyboard.config.run_config import RunConfig
from tff_keyboard.config.sections.schedule_config import Cosine
from tff_keyboard.storage.toml import tomllib

TABLES = ("server", "client", "central")


def rounds_of_cosines(config: RunConfig) -> list[str]:
    """Returns overrides that set the number of rounds of each cosine schedule in a config."""
    schedules = {name: getattr(getattr(config, name), "schedule", None) for name in TABLES}
    return [
        f"{name}.schedule.rounds={schedule.rounds}"
        for name, schedule in schedules.items()
        if isinstance(schedule, Cosine)
    ]


def with_rounds(config: RunConfig, recorded: str | None = None) -> RunConfig:
    """Returns `config` with the number of rounds set in every cosine schedule.

    A resumed run keeps its recorded number, so a larger `train.rounds` does not change the learning
    rate of finished rounds. Rounds after the end of a cosine have its lowest rate. A number in the
    config is not changed; a later check rejects it if it differs from the recorded one.

    Args:
      config: The config.
      recorded: The config that the run recorded (TOML), or None for a new run.
    """
    begun = tomllib.loads(recorded) if recorded else {}
    found: dict[str, Any] = {}
    for name in TABLES:
        table = getattr(config, name)
        schedule = getattr(table, "schedule", None)
        if not isinstance(schedule, Cosine) or schedule.rounds:
            continue
        # A run with fewer rounds than its warm-up ends during the warm-up.
        rounds = max(config.train.rounds, schedule.warmup_rounds + 1)
        recorded_rounds = begun.get(name, {}).get("schedule", {}).get("rounds", rounds)
        if recorded_rounds > schedule.warmup_rounds:  # otherwise rejected later
            rounds = recorded_rounds
        cosine = dataclasses.replace(schedule, rounds=rounds)
        found[name] = dataclasses.replace(table, schedule=cosine)
    return dataclasses.replace(config, **found)
