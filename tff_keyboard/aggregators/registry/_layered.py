"""Option and text of the aggregators that treat each layer by itself."""

import dataclasses

from tff_keyboard.parts.aggregator import Aggregator, layer_groups_problem

# A `privacy_problem`
WEIGHTS_ARE_NOT_BOUNDED = (
    "its weights depend on all clients at once, so one client's influence is not bounded by "
    "clipping. Use 'private_fedatt' or 'mean'."
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayeredAggregator(Aggregator):
    """The keys of aggregators that treat each layer by itself.

    Attributes:
      layer_groups: Groups of variables that form one layer: group name -> names of variables, or
        their positions such as "0". Every variable must be in exactly one group. If empty, each
        variable is a layer.
    """

    layer_groups: dict[str, list[str]] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if problem := layer_groups_problem(self.layer_groups, f"{self.PATH}.layer_groups"):
            raise ValueError(problem)
