"""Which keys of a config decide what a round computes: those a run keeps for good."""

import dataclasses

from tff_keyboard.config.config_file import to_dict
from tff_keyboard.config.reading.tables import Toml
from tff_keyboard.config.run_config import RunConfig
from tff_keyboard.config.sections.devices_config import DevicesConfig

_OF_SUMS = ("secure_sums", "secure_neighbours")  # what lies on disk of a round depends on them

# Keys that do not change what a round computes, so a run may be resumed with other values.
MAY_CHANGE = (
    "aggregation.privacy.noise_secret",  # a place; the ledger knows whether the secret is the same
    "train.rounds",
    "train.checkpoint_every",
    "train.keep_checkpoints",
    "train.early_stop_patience",
    "train.max_rejected_rounds",
    "execution.workers",  # what counts are `sub_rounds` and `merge_block`, which are written out
    "execution.engine",
    "execution.cluster.address",
    "execution.cluster.min_nodes",
    "execution.cluster.max_nodes",
    "execution.cluster.wait_seconds",
    "execution.cluster.max_losses",
    "execution.max_concurrent_clients",
    *(
        f"devices.{field.name}"
        for field in dataclasses.fields(DevicesConfig)
        if field.name not in _OF_SUMS
    ),
)


def what_rounds_compute(config: RunConfig) -> Toml:
    """The resolved config without `MAY_CHANGE` and `[execution]`, as nested plain values.

    Two runs that agree in it, in their data and in their initial weights have the same sums in
    every round, but for their rounding: `[execution]` decides in which order numbers are added.
    """
    kept = to_dict(config)
    del kept["execution"]
    if not config.devices.secure_sums:
        del kept["devices"]  # 0.1.0 had none
    del kept["data"]["language"]  # 0.1.0 had none; the store's hash tells what was prepared
    if not kept["model"].get("int4_rows"):
        kept["model"].pop("int4_rows", None)  # 0.1.0 had none
    for key in MAY_CHANGE:
        *tables, name = key.split(".")
        table = kept
        for part in tables:
            table = table.get(part, {})
        table.pop(name, None)
    return kept
