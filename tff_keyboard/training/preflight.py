"""Checks of a config and its client store before the slow import of TensorFlow."""

import pathlib
import warnings

from tff_keyboard.algorithms.cohorts import CohortSampler
from tff_keyboard.config.sections.rule_config import (
    BoundedTrimmedMeanConfig,
    Rule,
    TrimmedMeanConfig,
)
from tff_keyboard.config.sections.train_config import TrainConfig
from tff_keyboard.data.store.store_card import read_card
from tff_keyboard.host import progress
from tff_keyboard.storage.errors import ConfigError


def check_population(store: str, train: TrainConfig, rule: Rule) -> None:
    """Checks that the store has enough train clients for a round.

    Warns if a defence's share of a cohort is a smaller share of the accounts.

    Args:
      store: The client store.
      train: The table `[train]`.
      rule: The aggregator, `aggregation.rule`.

    Raises:
      ConfigError: There are too few clients.
    """
    population = read_card(pathlib.Path(store))["populations"]["train"]["clients"]
    progress.step(f"{store}: {population:,} clients to train on")
    try:
        CohortSampler(train, population)
    except ValueError as error:
        raise ConfigError(f"{store} has {population:,} train clients. {error}") from None
    if isinstance(rule, BoundedTrimmedMeanConfig):
        key, share = "attackers", rule.attackers
    elif isinstance(rule, TrimmedMeanConfig):
        key, share = "trim_fraction", rule.trim_fraction
    else:
        return
    if train.client_sampling == "proportional":
        factor = train.max_sampling_ratio
        warnings.warn(
            f"`aggregation.rule.{key}` = {share:g} of a cohort protects against only "
            f"{share / factor:.2g} of the accounts: clients that claim much text check in up to "
            f"`train.max_sampling_ratio` = {factor:g} times as often as the average client.",
            stacklevel=2,
        )
