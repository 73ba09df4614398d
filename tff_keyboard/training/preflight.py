"""Checks of a config and its client store before the slow import of TensorFlow."""

import pathlib
import warnings

from tff_keyboard.aggregators import attackers_in_cohort as cohort_attackers
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


def check_defence(train: TrainConfig, rule: Rule, *, min_reports: int = 0) -> None:
    """Checks that cohorts are large enough for the share of attackers of "bounded_trimmed_mean".

    A random cohort may have more attackers than are trimmed in 1 of 1,000 rounds at most. Warns if
    this holds only for attackers that do not report faster than other clients, or only if fewer
    clients drop out than `train.dropout_rate` or `devices.min_report_fraction` allows.

    Args:
      train: The table `[train]`.
      rule: The aggregator, `aggregation.rule`.
      min_reports: Smallest number of devices in a round, if clients are devices; 0 if they are
        simulated.

    Raises:
      ConfigError: If `train.clients_per_round` is too small.
    """
    if not isinstance(rule, BoundedTrimmedMeanConfig):
        return
    clients, share = train.clients_per_round, rule.attackers
    cut = cohort_attackers.tolerated_attackers(clients, share)
    risk = cohort_attackers.excess_probability(clients, share, cut)
    if risk > cohort_attackers.RISK:
        largest = cohort_attackers.largest_share(clients, cut)
        ways = [f"`aggregation.rule.attackers` to at most {largest:g}"] if largest else []
        if share <= cohort_attackers.MAX_SHARE:
            smallest = cohort_attackers.smallest_cohort(share, above=clients)
            ways.insert(0, f"`train.clients_per_round` to at least {smallest}")
        raise ConfigError(
            f"`aggregation.rule.attackers` = {share:g} requires larger cohorts than "
            f"`train.clients_per_round` = {clients}: in {1000 * risk:.3g} of 1,000 rounds a cohort "
            f"has more attackers than the {cut} that can be trimmed, and at most 1 is allowed. "
            f"{'Set ' + ', or '.join(ways) if ways else 'Use fewer attackers'}."
        )
    fast = cohort_attackers.excess_probability(train.selected_per_round, share, cut)
    if fast > cohort_attackers.RISK:
        warnings.warn(
            f"`train.over_selection` = {train.over_selection:g}: if attackers report before other "
            f"clients, {1000 * fast:.2g} of 1,000 rounds have more attackers than the {cut} that "
            f"`aggregation.rule.attackers` = {share:g} trims. Set `train.over_selection` to 1.",
            stacklevel=2,
        )
    reports = min(clients, int(train.selected_per_round * (1 - train.dropout_rate)))
    cause = f"`train.dropout_rate` = {train.dropout_rate:g} leaves about {reports}"
    way_out = "Raise `train.over_selection`."
    if min_reports:
        reports = min_reports
        cause = f"`devices.min_report_fraction` allows rounds with {reports}"
        way_out = "Set `devices.min_report_fraction` = 1."
    cut = cohort_attackers.tolerated_attackers(reports, share)
    small = cohort_attackers.excess_probability(reports, share, cut)
    if small > cohort_attackers.RISK:
        warnings.warn(
            f"{cause} of {clients} clients: in {1000 * small:.2g} of 1,000 such rounds they have "
            f"more attackers than the {cut} that are trimmed then. {way_out}",
            stacklevel=2,
        )


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
