"""The name of every file in a run, a client store, a saved model or a comparison.

They are defined only here. Satellites define the names of files that only they use.
"""

import pathlib
import re

CONFIG = "config.toml"
DATA_CARD = "data_card.json"
VOCABULARY = "vocabulary.txt"
TRUECASE = "truecase.txt"
ENVIRONMENT = "environment.json"
ORIGIN = "origin.json"
OWN_PARTS = "own_parts.json"
METRICS = "metrics.jsonl"
METRICS_TABLE = "metrics.csv"
WITHHELD_METRICS = "withheld_metrics.jsonl"
TIMINGS = "timings.csv"
LEDGER = "privacy_ledger.jsonl"
NOISE_NONCE = "noise_nonce"
CLIENT_DIGESTS = "client_digests"
REHEARSED_CLIENT_DIGESTS = "rehearsed_client_digests"
VALIDATION_CLIENT_DIGESTS = "validation_client_digests"
LOCK = "lock"
ROUND_SERVER = "round_server"
EVALUATION_ON_DEVICES = "evaluation.json"  # settings of `compare-on-devices`
NEW_WORDS_ON_DEVICES = "new_words.json"  # settings of `find-words-on-devices`
GROUPS_OF_DEVICES = "groups.jsonl"  # results of either, a line for each group of devices
SETTINGS_OF_SUMS = (EVALUATION_ON_DEVICES, NEW_WORDS_ON_DEVICES)
NEW_WORDS = "new_words.tsv"  # the words that devices found: word<TAB>devices
EXTENDED_VOCABULARY = "extended_vocabulary.txt"  # the model's vocabulary, with these words

CHECKPOINTS = "checkpoints"
_CHECKPOINT = re.compile(r"round_(\d{8,})\.checkpoint")
TENSORBOARD = "tensorboard"

MODEL = "model"
LAST_MODEL = "model_last"
MODEL_DESCRIPTION = "model.json"
WEIGHTS = "weights.npz"
MODEL_FILES = (MODEL_DESCRIPTION, WEIGHTS, VOCABULARY)

COMPARISON = "comparison.json"
COMPARISON_WITH_OWN_WORDS = "own_words.json"  # of `compare-on-devices`
COMPARISON_TABLE = "comparison.csv"

NO_STORE = "client_data"  # `data.store` of a run on client data of a program
CLIENTS = "clients.sqlite"
MESSAGE_LENGTHS = "message_lengths.npy"

# Names of version 0.2.0
OLD_CLIENT_DIGESTS = "people_digests"
OLD_REHEARSED_CLIENT_DIGESTS = "rehearsed_people_digests"


def checkpoint(round_num: int) -> str:
    """Returns the name of the checkpoint after a round.

    >>> checkpoint(12)
    'round_00000012.checkpoint'
    """
    return f"round_{round_num:08d}.checkpoint"


def round_of_checkpoint(name: str) -> int | None:
    """Returns the round of a checkpoint's name, or None for other names."""
    match = _CHECKPOINT.fullmatch(name)
    return int(match[1]) if match else None


def path_in(folder: pathlib.Path, name: str, old_name: str) -> pathlib.Path:
    """Returns the path of a file, under its name in an earlier version if such a file exists."""
    old = folder / old_name
    return old if old.exists() else folder / name


def evaluation(population: str, digest: str = "") -> str:
    """Returns the name of an evaluation's result file.

    >>> evaluation("held_out"), evaluation("held_out", "0a1b")
    ('evaluation_held_out.json', 'evaluation_held_out_0a1b.json')

    Args:
      population: Name of the evaluated clients, such as "held_out".
      digest: Digest of the evaluated weights, if part of the name.
    """
    return f"evaluation_{population}{'_' if digest else ''}{digest}.json"
