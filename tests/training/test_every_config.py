"""Every shipped config trains a round, shrunk and on synthetic typists.

Configs that differ in nothing but the sizes of numbers build the same computations: the first one
trains for all.
"""

import dataclasses

import numpy as np
import pytest

from tests.support import shipped_configs
from tff_keyboard import config as config_lib
from tff_keyboard.training.federated import train_federated

# Computations by the dozen are built here, of code that other tests trace for `make coverage`.
pytestmark = pytest.mark.no_cover

SHRUNK = (
    'data.source="synthetic"',
    "data.input=[]",
    'data.vocabulary_path=""',
    'data.mode="words"',
    "data.validation_fraction=0.2",
    "data.held_out_fraction=0.2",
    'model.initial_model=""',
    "model.units=8",
    "model.embedding_size=8",
    "client.max_examples=8",
    "train.rounds=1",
    "train.clients_per_round=3",
    "evaluation.every=1",
    "evaluation.clients=2",
    "train.over_selection=1.0",
)


def shrunk(path, chosen, store):
    overrides = [*chosen, *SHRUNK, f"data.store={store}"]
    config = config_lib.load(path, chosen)
    if config.fine_tuning.general_store:
        overrides.append(f"fine_tuning.general_store={store}")
    if config.fine_tuning.server.type == "transfer":
        overrides.append("fine_tuning.server.messages=8")
    if config.train.min_separation_rounds > 3:
        overrides.append("train.min_separation_rounds=3")
    return config_lib.load(path, overrides)


def kind(value):
    """Settings without the sizes of numbers; 0 stays, which often means "none"."""
    if isinstance(value, dict):
        return tuple((key, kind(each)) for key, each in sorted(value.items()))
    is_size = isinstance(value, int | float) and not isinstance(value, bool) and value != 0
    return "a number" if is_size else str(value)


CONFIGS = tuple((str(path), path, ()) for path in shipped_configs.CONFIGS)


def cases(runs):
    """The first of each kind among `runs`: (name, config, overrides)."""
    by_kind = {}
    for name, path, chosen in runs:
        config = shrunk(path, chosen, "a_store")
        by_kind.setdefault(kind(dataclasses.asdict(config)), pytest.param(path, chosen, id=name))
    return list(by_kind.values())


@pytest.mark.slow
@pytest.mark.parametrize("path, chosen", cases(CONFIGS))
def test_a_round_of_every_config(path, chosen, store, tmp_path):
    train_a_round(path, chosen, store, tmp_path)


def train_a_round(path, chosen, store, tmp_path):
    row = train_federated(shrunk(path, chosen, store), tmp_path / "run")
    assert row["rejected"] == 0
    assert np.isfinite(row["evaluation/perplexity"])
    assert (tmp_path / "run" / "model").is_dir()
