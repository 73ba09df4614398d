"""The config keys that determine the result of a round. They cannot change during a run."""

import copy
import dataclasses

from tff_keyboard.config.sections.devices_config import DevicesConfig
from tff_keyboard.parts.model import MODELS
from tff_keyboard.parts.tables import Toml

_OF_SUMS = ("secure_sums", "secure_neighbours")  # the files of a round depend on them

# Keys that do not change the result of a round. A run may be resumed with other values.
MAY_CHANGE = (
    "aggregation.privacy.noise_secret",  # a path; the ledger detects another secret
    "train.rounds",
    "train.checkpoint_every",
    "train.keep_checkpoints",
    "train.early_stop_patience",
    "train.max_rejected_rounds",
    "execution.engine",
    "execution.cluster.address",
    "execution.cluster.min_nodes",
    "execution.cluster.max_nodes",
    "execution.cluster.wait_seconds",
    "execution.cluster.max_losses",
    "execution.threads",
    *(
        f"devices.{field.name}"
        for field in dataclasses.fields(DevicesConfig)
        if field.name not in _OF_SUMS
    ),
)


def numerics_config(config: Toml) -> Toml:
    """Returns a resolved config, as `to_dict` gives it, without `MAY_CHANGE` and `[execution]`.

    If this config, the data and the initial weights of two runs are equal, the runs compute the
    same sums in every round up to rounding, because `[execution]` determines the order of
    additions.
    """
    facts = copy.deepcopy(config)
    del facts["execution"]
    if not facts["devices"]["secure_sums"]:
        del facts["devices"]  # version 0.1.0 had no such table
    # The store's hash covers their effect, and runs of earlier versions do not have them.
    for name in ("language", "client_column", "text_column", "time_column"):
        del facts["data"][name]
    if not facts["evaluation"]["metrics"]:
        del facts["evaluation"]["metrics"]  # recorded configs may lack this table
    if not facts["data"]["source_options"]:
        del facts["data"]["source_options"]  # recorded configs may lack this table
    if facts["fine_tuning"]["server"] == {"type": "averaging"}:
        del facts["fine_tuning"]["server"]  # recorded configs may lack this table
    # The noise key of a private run depends on the names of the keys, so a run of version 0.2.0 can
    # only be resumed with its old name.
    facts["data"]["vocabulary_words_per_person"] = facts["data"].pop("vocabulary_words_per_client")
    # Runs of version 0.2.0 did not record sizes of a model that equal the defaults.
    model = MODELS.get(facts["model"]["type"])
    for name in ("units", "embedding_size", "tied"):
        if name in facts["model"] and facts["model"][name] == getattr(model, name, None):
            del facts["model"][name]
    for key in MAY_CHANGE:
        *tables, name = key.split(".")
        table = facts
        for part in tables:
            table = table.get(part, {})
        table.pop(name, None)
    return facts
