"""Keys that version 0.2.0 had under other names.

The error for an old key tells the new one. In the config that a run recorded, the new name replaces
the old one.
"""

_TAGS = {
    "model": "name",
    "client": "algorithm",
    "client.schedule": "name",
    "server": "optimizer",
    "server.schedule": "name",
    "averaging": "kind",
    "central": "optimizer",
    "central.schedule": "name",
    "aggregation.rule": "name",
    "aggregation.privacy": "mechanism",
    "aggregation.protection": "clipping",
    "aggregation.compression": "codec",
    "aggregation.row_correction": "kind",
    "aggregation.client_noise": "distribution",
    "fine_tuning.method": "name",
    "fine_tuning.server": "name",
}
RENAMED_KEYS = {f"{table}.{tag}": f"{table}.type" for table, tag in _TAGS.items()} | {
    "data.vocabulary_words_per_person": "data.vocabulary_words_per_client",
    "train.check_in": "train.client_sampling",
    "train.check_in_factor": "train.max_sampling_ratio",
    "train.left_out_client": "train.excluded_client",
    "devices.least_share": "devices.min_report_fraction",
    "devices.least_examples": "devices.min_examples",
    "devices.least_days_between": "devices.min_days_between",
    "execution.cluster.allow_other_bits": "execution.cluster.allow_nondeterminism",
}
