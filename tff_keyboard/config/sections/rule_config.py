"""`[aggregation.rule]`: the aggregator, chosen by `type`.

Each class contains the arguments of its factory. The modules of the factories explain the
aggregators (`aggregators/fedatt/aggregator.py`, `aggregators/fedmed/aggregator.py`, ...).
"""

import dataclasses
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, TypeAlias

from tff_keyboard.config.reading.tables import Table, variants
from tff_keyboard.storage.checks import NotNegative, Positive, Range

LayerGroups: TypeAlias = dict[str, list[str]]

_ALL_AT_ONCE = (
    "its weights depend on all clients at once, so one client's influence is not bounded by "
    "clipping. Use 'private_fedatt' or 'mean'."
)
_ORDER_STATISTICS = "order statistics have no clipped sensitivity. Use 'mean'."


class _Rule(Table, path="aggregation.rule"):
    """Base class of the aggregator tables.

    `averages`: whether the default protection is used before the aggregator. `privacy_problem`: why
    no mechanism gives it a guarantee, or "".
    """

    averages: ClassVar[bool] = False
    privacy_problem: ClassVar[str] = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_layer_groups(getattr(self, "layer_groups", {}))


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeanConfig(_Rule):
    """The weighted mean of updates.

    With `[aggregation.privacy]`, the mean of clipped updates with noise.
    """

    averages: ClassVar[bool] = True

    type: Literal["mean"] = "mean"


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedAttConfig(_Rule):
    """FedAtt: weights each layer of a client by attention (Ji et al. 2019).

    Attributes:
      norm: Norm that measures how far a layer moved: the L1, L2 or maximum norm ("1", "2", "inf"),
        or "spectral", the largest singular value of a matrix.
      temperature: Divisor of the distances: attention is softmax(distance / temperature). With
        large values, FedAtt approaches the unweighted mean. 1 is as in the paper.
      layer_groups: Groups of variables that form one layer: group name -> names of variables, or
        their positions such as "0". Every variable must be in exactly one group. If empty, each
        variable is a layer.
    """

    averages: ClassVar[bool] = True
    privacy_problem: ClassVar[str] = _ALL_AT_ONCE

    type: Literal["fedatt"] = "fedatt"
    norm: Literal["1", "2", "inf", "spectral"] = "2"
    temperature: Positive = 1.0
    layer_groups: LayerGroups = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedMedConfig(_Rule):
    """FedMed: chooses in each round between FedAvg and adaptive weights (Wu et al. 2020).

    Attributes:
      top_fraction: Share of the cohort that contributes to the update: the clients with the lowest
        loss (beta in the paper). 1 uses all clients.
      mediation_threshold: Threshold for the change of the mean local loss between two rounds, in
        nats (epsilon in the paper). If the change is at least this large, the round uses adaptive
        weights; otherwise it uses the weights of FedAvg. 0 always uses adaptive weights. The
        default is the value of the paper.
      local_loss: Loss by which clients and rounds are compared. "after_training", as in the paper,
        is the loss of the trained model on the messages that it was trained on. Computing it takes
        a client a third more work. "during_training" is the mean loss over the batches of the
        training, and takes no further work.
      layer_groups: Groups of variables that form one layer, as for "fedatt".
    """

    averages: ClassVar[bool] = True
    privacy_problem: ClassVar[str] = _ALL_AT_ONCE

    type: Literal["fedmed"] = "fedmed"
    top_fraction: Annotated[float, Range("in (0, 1]", lambda share: 0 < share <= 1)] = 1.0
    mediation_threshold: NotNegative = 0.1
    local_loss: Literal["during_training", "after_training"] = "after_training"
    layer_groups: LayerGroups = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivateFedAttConfig(_Rule):
    """FedAtt with differential privacy, as one Gaussian mechanism (docs/privacy/private_fedatt.md).

    `clip_norm` of `[aggregation.privacy]` bounds each layer, not the whole update.

    Attributes:
      attention_bound: Bound B on the logarithm of an attention weight, >= 0. Attention weights are
        in [1, e^B]; with 0 all clients have equal weight.
      denominator_floor: Lower bound on the noisy sum of the attention weights, in units of a client
        with the largest weight. It prevents a division by a sum that noise made too small.
      layer_groups: Groups of variables that form one layer, as for "fedatt". With fewer layers,
        less noise is needed.
    """

    type: Literal["private_fedatt"] = "private_fedatt"
    attention_bound: NotNegative = 1.0
    denominator_floor: Positive = 1.0
    layer_groups: LayerGroups = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MedianConfig(_Rule):
    """The median of each coordinate."""

    privacy_problem: ClassVar[str] = _ORDER_STATISTICS

    type: Literal["median"] = "median"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrimmedMeanConfig(_Rule):
    """The mean of each coordinate without the lowest and highest values.

    Attributes:
      trim_fraction: Share of the values that is cut at each end: the lowest and the highest values
        of the cohort. Must be below 0.5. It is not a share of attackers: a random cohort often has
        more attackers than their average (docs/attacks.md).
    """

    privacy_problem: ClassVar[str] = _ORDER_STATISTICS

    type: Literal["trimmed_mean"] = "trimmed_mean"
    trim_fraction: Annotated[float, Range("in [0, 0.5)", lambda share: 0 <= share < 0.5)] = 0.1


@dataclasses.dataclass(frozen=True, kw_only=True)
class BoundedTrimmedMeanConfig(_Rule):
    """The trimmed mean of clipped updates: a defence against attacks (docs/attacks.md).

    Updates are first clipped to the median norm of the cohort.

    Attributes:
      attackers: Share of all clients that may be attackers. At each end, the aggregator cuts the
        largest number of attackers that a random cohort contains in 999 of 1,000 rounds. With 0.1
        this is 7 of 20 clients, or 20 of 100. `train.clients_per_round` must be so large that this
        is a minority: at least 9 for 0.1, 21 for 0.2, 55 for 0.3. With "proportional" sampling,
        multiply the share of attackers by `train.max_sampling_ratio`.
    """

    privacy_problem: ClassVar[str] = _ORDER_STATISTICS

    type: Literal["bounded_trimmed_mean"] = "bounded_trimmed_mean"
    attackers: Annotated[float, Range("in (0, 0.5)", lambda share: 0 < share < 0.5)] = 0.1


# They ignore the extremes of a cohort, and are robust while few of its clients attack.
ORDER_STATISTICS = (MedianConfig, TrimmedMeanConfig, BoundedTrimmedMeanConfig)

Rule: TypeAlias = (
    MeanConfig
    | FedAttConfig
    | FedMedConfig
    | PrivateFedAttConfig
    | MedianConfig
    | TrimmedMeanConfig
    | BoundedTrimmedMeanConfig
)
RULES: Mapping[str, type[Rule]] = variants(Rule)


def check_layer_groups(groups: LayerGroups) -> None:
    """Raises `ValueError` unless every group has members and no variable is in two groups."""
    seen: dict[str, str] = {}
    for group, members in groups.items():
        if not members:
            raise ValueError(
                f"`aggregation.rule.layer_groups.{group}` is empty. Add its variables, or remove "
                "it."
            )
        for member in members:
            if member in seen:
                raise ValueError(
                    f"`aggregation.rule.layer_groups`: variable {member!r} is in "
                    f"{seen[member]!r} and {group!r}; each variable belongs to one group."
                )
            seen[member] = group
