"""An aggregator that is not in this package."""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

from tff_keyboard.parts.aggregator import (
    AGGREGATORS,
    KEEPS_SENSITIVITY,
    SENSITIVITY_IS_UNKNOWN,
    Aggregator,
    AggregatorRun,
)
from tff_keyboard.parts.own_part import OwnPart
from tff_keyboard.storage.errors import ConfigError


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

        from tff_keyboard.aggregators.processes import as_weighted

        inner = as_weighted(AGGREGATORS["mean"]().build(run))
        factory = self.call(vars(run) | {"inner": inner})
        library = tff.aggregators
        kinds = (library.WeightedAggregationFactory, library.UnweightedAggregationFactory)
        self.must_be(isinstance(factory, kinds), "a factory of `tff.aggregators`", factory)
        return factory

    def check_types(self, run: AggregatorRun, shapes: Sequence[Sequence[int]]) -> None:
        """See base class."""
        import numpy as np
        import tensorflow_federated as tff

        from tff_keyboard.execution.graph_function import leaf_types

        factory = self.build(run)
        update = tff.to_type([tff.TensorType(np.float32, shape) for shape in shapes])
        with self.errors():
            if isinstance(factory, tff.aggregators.WeightedAggregationFactory):
                process = factory.create(update, tff.TensorType(np.float32))
            else:
                process = factory.create(update)
        self.require_fixed_shapes(leaf_types(process.initialize.type_signature.result.member))
        takes = process.next.type_signature.parameter[1].member
        gives = process.next.type_signature.result.result.member
        for verb, other in {"take": takes, "return": gives}.items():
            if str(other) != str(update):
                raise ConfigError(
                    f"`{self.key}` = {self.type!r} must {verb} an update of the type {update} "
                    f"(`value_type`), got {other}."
                )
