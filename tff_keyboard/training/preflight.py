"""Checks of a config and its client store that are made before the slow import of TensorFlow."""

import pathlib
import warnings

from tff_keyboard.config import ConfigError, RunConfig
from tff_keyboard.config.sections.rule_config import BoundedTrimmedMean, TrimmedMean
from tff_keyboard.data.store.store_card import read_card
from tff_keyboard.federated.learning.cohorts import CohortSampler
from tff_keyboard.host import progress


def check_population(config: RunConfig) -> None:
    """Raises `ConfigError` if every round needs more train clients than the store has.

    Warns of a defence whose share of a cohort is a smaller share of the accounts.
    """
    store = pathlib.Path(config.data.store)
    population = read_card(store)["populations"]["train"]["clients"]
    progress.step(f"{store}: {population:,} people to train on")
    try:
        CohortSampler(config.train, population)
    except ValueError as error:
        raise ConfigError(f"{store} has {population:,} train clients. {error}") from None
    _warn_of_seats(config)


def _warn_of_seats(config: RunConfig) -> None:
    rule = config.aggregation.rule
    if isinstance(rule, BoundedTrimmedMean):
        key, share = "attackers", rule.attackers
    elif isinstance(rule, TrimmedMean):
        key, share = "trim_fraction", rule.trim_fraction
    else:
        return
    if config.train.check_in == "by_text":
        factor = config.train.check_in_factor
        warnings.warn(
            f"`aggregation.rule.{key}` = {share:g} of a cohort are {share / factor:.2g} of the "
            "accounts: who claims text checks in `train.check_in_factor` = "
            f"{factor:g} times as often as the average person.",
            stacklevel=3,
        )
