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
    """The weighted mean; with `[aggregation.privacy]`, the noisy mean of clipped updates."""

    averages: ClassVar[bool] = True

    type: Literal["mean"] = "mean"


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedAttConfig(_Rule):
    """Attention over clients (Ji et al. 2019).

    Attributes:
      norm: Distance of a layer: "1", "2", "inf" or "spectral" (largest singular value of matrices).
      temperature: Attention is softmax(norm / temperature); > 0. Large values approach the
        unweighted mean.
      layer_groups: The layers: group name -> variable names (or positions such as "0"), a partition
        of the variables. If empty, each weight tensor is a layer.
    """

    averages: ClassVar[bool] = True
    privacy_problem: ClassVar[str] = _ALL_AT_ONCE

    type: Literal["fedatt"] = "fedatt"
    norm: Literal["1", "2", "inf", "spectral"] = "2"
    temperature: Positive = 1.0
    layer_groups: LayerGroups = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedMedConfig(_Rule):
    """Mediation between FedAvg and adaptive weights (Wu et al. 2020).

    Attributes:
      top_fraction: beta in (0, 1]: share of clients that contribute, with the lowest loss first.
      mediation_threshold: epsilon, in nats of mean local loss, >= 0: adaptive weights are used
        while the loss changes by at least this much between rounds; 0 means always. The paper uses
        0.1.
      local_loss: The loss that compares clients and rounds. "after_training", as in the paper: of
        the trained model on the same messages, a third more work for the client. "during_training":
        the mean over the batches of the client's training, at no cost.
      layer_groups: Groups of layers; see "fedatt".
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
    """FedAtt as one Gaussian mechanism (docs/privacy/private_fedatt.md).

    `clip_norm` of `[aggregation.privacy]` bounds each layer, not the whole update.

    Attributes:
      attention_bound: B >= 0; attention weights are in [1, e^B].
      denominator_floor: Lower bound on a noisy denominator, in clients with full attention, > 0.
      layer_groups: Groups of layers; see "fedatt". Fewer layers need less noise.
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
    """The mean of each coordinate without its extremes.

    Attributes:
      trim_fraction: Share that is cut on each side, in [0, 0.5).
    """

    privacy_problem: ClassVar[str] = _ORDER_STATISTICS

    type: Literal["trimmed_mean"] = "trimmed_mean"
    trim_fraction: Annotated[float, Range("in [0, 0.5)", lambda share: 0 <= share < 0.5)] = 0.1


@dataclasses.dataclass(frozen=True, kw_only=True)
class BoundedTrimmedMeanConfig(_Rule):
    """The trimmed mean of bounded updates: a defence against attacks (docs/attacks.md).

    Attributes:
      attackers: Share of all clients that may attack, in (0, 0.5). Each coordinate is cut on each
        side by the largest number of attackers in a random cohort in 999 rounds of 1,000. With 0.1
        this is 7 of 20 clients, or 20 of 100. With "proportional" sampling, multiply the share of
        the accounts by `train.max_sampling_ratio`.
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
