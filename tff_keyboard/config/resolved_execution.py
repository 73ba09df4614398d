"""What `[execution]` leaves open, decided: by the config and, for an older run, by its record."""

import dataclasses
import math
import tomllib

from tff_keyboard.config.run_config import RunConfig

ONE_BY_ONE = 1  # `execution.clients_per_pack`: what all runs did before there were packs
CLIENTS_PER_SUB_ROUND = 40  # one by one; a worker keeps their deltas, 27 MB each


def packs_as_begun(config: RunConfig, recorded: str | None) -> RunConfig:
    """`config` with `execution.clients_per_pack` = 1 where a run began without packs.

    Its bits stay those of one training. What the config sets itself stays, and is refused later.

    Args:
      config: As given.
      recorded: The TOML that the run recorded when it began; None: it begins now.
    """
    if recorded is None or config.execution.clients_per_pack:
        return config
    if "clients_per_pack" in tomllib.loads(recorded).get("execution", {}):
        return config
    return _replaced(config, clients_per_pack=ONE_BY_ONE)


def with_sub_rounds(config: RunConfig) -> RunConfig:
    """`execution.sub_rounds` = 0 as a number, which a resumed run keeps whatever its workers."""
    if config.execution.sub_rounds:
        return config
    parts = 1
    if config.execution.clients_per_pack == ONE_BY_ONE:
        parts = math.ceil(config.train.most_clients_per_round / CLIENTS_PER_SUB_ROUND)
    return _replaced(config, sub_rounds=max(parts, config.execution.workers))


def _replaced(config: RunConfig, **values: int) -> RunConfig:
    execution = dataclasses.replace(config.execution, **values)
    return dataclasses.replace(config, execution=execution)
