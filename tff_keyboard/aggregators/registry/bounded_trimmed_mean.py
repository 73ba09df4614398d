"""The aggregator "bounded_trimmed_mean", and the cohorts that it requires."""

import dataclasses
import warnings
from typing import Annotated, ClassVar, Literal

from tff_keyboard.aggregators import attackers_in_cohort as cohort_attackers
from tff_keyboard.aggregators.registry._order_statistic import OrderStatistic
from tff_keyboard.parts.aggregator import CohortSettings, few_reports
from tff_keyboard.storage.checks import Range
from tff_keyboard.storage.errors import ConfigError


@dataclasses.dataclass(frozen=True, kw_only=True)
class BoundedTrimmedMeanConfig(OrderStatistic):
    """The trimmed mean of clipped updates: a defence against attacks (docs/attacks.md).

    Updates are first clipped to the median norm of the cohort.

    Attributes:
      attackers: Share of all clients that may be attackers. At each end, the aggregator cuts the
        largest number of attackers that a random cohort contains in 999 of 1,000 rounds. With 0.1
        this is 7 of 20 clients, or 20 of 100. `train.clients_per_round` must be so large that this
        is a minority: at least 9 for 0.1, 21 for 0.2, 55 for 0.3. With "proportional" sampling,
        multiply the share of attackers by `train.max_sampling_ratio`.
    """

    factory: ClassVar[str] = (
        "tff_keyboard.aggregators.bounded_trimmed_mean:BoundedTrimmedMeanFactory"
    )
    attacker_share: ClassVar[str] = "attackers"

    type: Literal["bounded_trimmed_mean"] = "bounded_trimmed_mean"
    attackers: Annotated[float, Range("in (0, 0.5)", lambda share: 0 < share < 0.5)] = 0.1

    def check_cohort(self, train: CohortSettings, *, min_reports: int = 0) -> None:
        """Checks that cohorts are large enough for the share of attackers.

        A random cohort may have more attackers than are trimmed in 1 of 1,000 rounds at most. Warns
        if this holds only for attackers that do not report faster than other clients, or only if
        fewer clients drop out than `train.dropout_rate` or `devices.min_report_fraction` allows.

        Raises:
          ConfigError: If `train.clients_per_round` is too small.
        """
        clients, share = train.clients_per_round, self.attackers
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
                f"`train.clients_per_round` = {clients}: in {1000 * risk:.3g} of 1,000 rounds a "
                f"cohort has more attackers than the {cut} that can be trimmed, and at most 1 is "
                f"allowed. {'Set ' + ', or '.join(ways) if ways else 'Use fewer attackers'}."
            )
        fast = cohort_attackers.excess_probability(train.selected_per_round, share, cut)
        if fast > cohort_attackers.RISK:
            warnings.warn(
                f"`train.over_selection` = {train.over_selection:g}: if attackers report before "
                f"other clients, {1000 * fast:.2g} of 1,000 rounds have more attackers than the "
                f"{cut} that `aggregation.rule.attackers` = {share:g} trims. Set "
                "`train.over_selection` to 1.",
                stacklevel=2,
            )
        reports, cause, way_out = few_reports(train, min_reports)
        cut = cohort_attackers.tolerated_attackers(reports, share)
        small = cohort_attackers.excess_probability(reports, share, cut)
        if small > cohort_attackers.RISK:
            warnings.warn(
                f"{cause} of {clients} clients: in {1000 * small:.2g} of 1,000 such rounds they "
                f"have more attackers than the {cut} that are trimmed then. {way_out}",
                stacklevel=2,
            )
