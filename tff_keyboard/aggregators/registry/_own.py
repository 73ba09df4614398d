"""An aggregator that is not in this package."""

import dataclasses
from typing import Any, ClassVar

from tff_keyboard.parts.aggregator import (
    AGGREGATORS,
    KEEPS_SENSITIVITY,
    SENSITIVITY_IS_UNKNOWN,
    Aggregator,
    AggregatorRun,
)
from tff_keyboard.parts.own_part import OwnPart


@dataclasses.dataclass(frozen=True, kw_only=True)
class OwnAggregator(Aggregator, OwnPart):
    """An aggregator of the user: a function or class that gives a TFF aggregation factory.

    The factory may be weighted or not. Parameters with these names get values of the run, see
    `AggregatorRun`: `clients_per_round`, `seed`, `variable_names`. `inner` gets the weighted
    factory of "mean", which clips updates and adds noise in a private run.

    A part that has the attribute `averages` = True gets the default protection before it. A
    mechanism of privacy requires the attribute `keeps_sensitivity` = True, with which the part
    declares that it gives `inner` the update of each client once, computed from this client's
    values alone, and that its state, result and measurements use clients only through `inner`.
    """

    GROUP: ClassVar[str] = "tff_keyboard.aggregators"
    RUN_VALUES: ClassVar[tuple[str, ...]] = (
        "clients_per_round",
        "seed",
        "variable_names",
        "inner",
    )
    secure_sum_problem: ClassVar[str] = "it may need the update of each client"

    @property
    def averages(self) -> bool:  # type: ignore[override]
        """See base class."""
        return self.declares("averages")

    @property
    def privacy_problem(self) -> str:  # type: ignore[override]
        """See base class."""
        if self.problem or self.declares(KEEPS_SENSITIVITY):
            return ""
        return SENSITIVITY_IS_UNKNOWN

    def build(self, run: AggregatorRun) -> Any:
        """See base class."""
        import tensorflow_federated as tff

        inner = AGGREGATORS["mean"]().build(run)
        if isinstance(inner, tff.aggregators.UnweightedAggregationFactory):
            inner = tff.aggregators.as_weighted_aggregator(inner)
        factory = self.call(vars(run) | {"inner": inner})
        library = tff.aggregators
        kinds = (library.WeightedAggregationFactory, library.UnweightedAggregationFactory)
        self.must_be(isinstance(factory, kinds), "a factory of `tff.aggregators`", factory)
        return factory
