"""Checks of a config and its client store before the slow import of TensorFlow."""

import pathlib
import warnings

from tff_keyboard.algorithms.cohorts import CohortSampler
from tff_keyboard.config import ConfigError, RunConfig
from tff_keyboard.config.sections.rule_config import BoundedTrimmedMeanConfig, TrimmedMeanConfig
from tff_keyboard.data.store.store_card import read_card
from tff_keyboard.host import progress


def check_population(config: RunConfig) -> None:
    """Checks that the store has enough train clients for a round.

    Warns if a defence's share of a cohort is a smaller share of the accounts.

    Raises:
      ConfigError: There are too few clients.
    """
    store = pathlib.Path(config.data.store)
    population = read_card(store)["populations"]["train"]["clients"]
    progress.step(f"{store}: {population:,} clients to train on")
    try:
        CohortSampler(config.train, population)
    except ValueError as error:
        raise ConfigError(f"{store} has {population:,} train clients. {error}") from None
    _warn_of_seats(config)


def _warn_of_seats(config: RunConfig) -> None:
    rule = config.aggregation.rule
    if isinstance(rule, BoundedTrimmedMeanConfig):
        key, share = "attackers", rule.attackers
    elif isinstance(rule, TrimmedMeanConfig):
        key, share = "trim_fraction", rule.trim_fraction
    else:
        return
    if config.train.client_sampling == "proportional":
        factor = config.train.max_sampling_ratio
        warnings.warn(
            f"`aggregation.rule.{key}` = {share:g} of a cohort protects against only "
            f"{share / factor:.2g} of the accounts: clients that claim much text check in up to "
            f"`train.max_sampling_ratio` = {factor:g} times as often as the average client.",
            stacklevel=3,
        )
