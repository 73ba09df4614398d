"""Checks of a config and its client store that are made before the slow import of TensorFlow."""

import pathlib

from tff_keyboard.config import ConfigError, RunConfig
from tff_keyboard.data.store.store_card import read_card
from tff_keyboard.learning.cohorts import cohort_sampler


def check_population(config: RunConfig) -> None:
    """Raises where the store's train clients are too few for the cohorts of a federated run.

    Raises:
      ConfigError: Every round needs more clients than there are.
      DataError: `data.store` is no client store, or is damaged.
    """
    store = pathlib.Path(config.data.store)
    population = read_card(store)["populations"]["train"]["clients"]
    try:
        cohort_sampler(config.train, population)
    except ValueError as error:
        raise ConfigError(f"{store} has {population:,} train clients. {error}") from None
