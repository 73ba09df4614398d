"""Checks of a config and its client store before the slow import of TensorFlow."""

import pathlib
import warnings

from tff_keyboard.algorithms.cohorts import CohortSampler
from tff_keyboard.config.sections.train_config import TrainConfig
from tff_keyboard.data.store.store_card import read_card
from tff_keyboard.host import progress
from tff_keyboard.parts.aggregator import Aggregator
from tff_keyboard.storage.errors import ConfigError


def check_defence(train: TrainConfig, rule: Aggregator, *, min_reports: int = 0) -> None:
    """Checks that cohorts are large enough for the aggregator, and warns of rounds that are not.

    Args:
      train: The table `[train]`.
      rule: The aggregator, `aggregation.rule`.
      min_reports: Smallest number of devices in a round, if clients are devices; 0 if they are
        simulated.

    Raises:
      ConfigError: If `train.clients_per_round` is too small.
    """
    rule.check_cohort(train, min_reports=min_reports)


def check_population(store: str, train: TrainConfig, rule: Aggregator) -> None:
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
    if rule.attacker_share and train.client_sampling == "proportional":
        share, factor = getattr(rule, rule.attacker_share), train.max_sampling_ratio
        warnings.warn(
            f"`aggregation.rule.{rule.attacker_share}` = {share:g} of a cohort protects against "
            f"only {share / factor:.2g} of the accounts: clients that claim much text check in up "
            f"to `train.max_sampling_ratio` = {factor:g} times as often as the average client.",
            stacklevel=2,
        )
