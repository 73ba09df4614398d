"""Decides what `[execution]` leaves open: from the config, or from the record of a begun run."""

import dataclasses
import math
from typing import Any

from tff_keyboard.config.run_config import RunConfig
from tff_keyboard.storage.toml import tomllib

ONE_BY_ONE = 1  # `execution.clients_per_pack`: no packs
EACH_BY_ITSELF = 1  # `execution.merge_block`: no blocks
CLIENTS_PER_SUB_ROUND = 40  # one by one; a worker keeps their deltas, 27 MB each
PARTS_ON_A_CLUSTER = 16
PARTS_WITHOUT_BLOCKS = 64  # more partial sums than this are added up where they are computed,
PARTS_PER_BLOCK = 16  # so that the driver gets a sixteenth of them


def as_begun(config: RunConfig, recorded: str | None) -> RunConfig:
    """`config` in which packs, parts and blocks that it leaves open are those a run began with.

    Its bits stay those of one training, on whatever it goes on. What the config sets itself stays,
    and is refused later where it differs. `recorded` is the TOML of the begun run; None: it begins.
    """
    if recorded is None:
        return config
    begun = tomllib.loads(recorded).get("execution", {})
    keys = ("clients_per_pack", "sub_rounds", "merge_block")
    open_keys = [key for key in keys if not getattr(config.execution, key)]
    found = {key: begun[key] for key in open_keys if key in begun}
    # More workers than parts would wait; central training leaves the parts open.
    if found.get("sub_rounds"):
        found["workers"] = min(config.execution.workers, found["sub_rounds"])
    return _replaced(config, **found)


def with_parts(config: RunConfig) -> RunConfig:
    """`execution.sub_rounds` and `merge_block` = 0 as numbers, which a resumed run keeps."""
    execution = config.execution
    parts, block = execution.sub_rounds, execution.merge_block
    if not parts:
        parts = PARTS_ON_A_CLUSTER if execution.engine == "ray" else 1
        if execution.clients_per_pack == ONE_BY_ONE:
            by_one = math.ceil(config.train.most_clients_per_round / CLIENTS_PER_SUB_ROUND)
            parts = max(parts, by_one)
        parts = max(parts, execution.workers)
    if not block:
        block = PARTS_PER_BLOCK if parts > PARTS_WITHOUT_BLOCKS else EACH_BY_ITSELF
    return _replaced(config, sub_rounds=parts, merge_block=block)


def with_other_bits(config: RunConfig) -> RunConfig:
    """`config` with `execution.cluster.allow_other_bits`."""
    cluster = dataclasses.replace(config.execution.cluster, allow_other_bits=True)
    return _replaced(config, cluster=cluster)


def _replaced(config: RunConfig, **values: Any) -> RunConfig:
    execution = dataclasses.replace(config.execution, **values)
    return dataclasses.replace(config, execution=execution)
