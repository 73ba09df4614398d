"""`[aggregation.rule]`: how client deltas are combined, chosen by `name`.

Each class is what its factory takes; the factories' modules explain the rules
(`federated/algorithms/fedatt/aggregator.py`, `federated/algorithms/fedmed/aggregator.py`, ...).
"""

import dataclasses
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, TypeAlias

from tff_keyboard.config.reading.checks import NotNegative, Positive, Range
from tff_keyboard.config.reading.tables import Table, variants

LayerGroups: TypeAlias = dict[str, list[str]]

_ALL_AT_ONCE = (
    "its weights depend on all clients at once, so one client's influence is not bounded by "
    "clipping. Use 'private_fedatt' or 'mean'."
)
_ORDER_STATISTICS = "order statistics have no clipped sensitivity. Use 'mean'."


class _Rule(Table, path="aggregation.rule"):
    """Base of the rules.

    `averages`: whether the default protection stands before it. `privacy_problem`: why no mechanism
    can be claimed for it, or "".
    """

    averages: ClassVar[bool] = False
    privacy_problem: ClassVar[str] = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_layer_groups(getattr(self, "layer_groups", {}))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mean(_Rule):
    """The weighted mean; under `[aggregation.privacy]`, the noisy mean of clipped deltas."""

    averages: ClassVar[bool] = True

    name: Literal["mean"] = "mean"


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedAtt(_Rule):
    """Attention over clients (Ji et al. 2019).

    Attributes:
      norm: Distance of a layer: "1", "2", "inf" or "spectral" (matrices by their largest singular
        value).
      temperature: Attention is softmax(norm / temperature); > 0. Large values tend to the
        unweighted mean.
      layer_groups: What is called a layer. Empty: each weight tensor is one. Otherwise group name
        -> variable names (or positions such as "0"); a partition.
    """

    averages: ClassVar[bool] = True
    privacy_problem: ClassVar[str] = _ALL_AT_ONCE

    name: Literal["fedatt"] = "fedatt"
    norm: Literal["1", "2", "inf", "spectral"] = "2"
    temperature: Positive = 1.0
    layer_groups: LayerGroups = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedMed(_Rule):
    """Mediation between FedAvg and adaptive weights (Wu et al. 2020).

    Attributes:
      top_fraction: beta in (0, 1]: the share of clients, lowest loss first, that contribute.
      mediation_threshold: epsilon, in nats of mean local loss, >= 0: the adaptive rule is used
        while the loss moves at least that much between rounds; 0 is always. The paper's is 0.1.
      local_loss: The loss by which clients and rounds are compared. "after_training", the paper's:
        of the trained model on the same messages, a third more work for the client.
        "during_training": the mean over the batches a client trained on, at no cost.
      layer_groups: Groups of layers; see "fedatt".
    """

    averages: ClassVar[bool] = True
    privacy_problem: ClassVar[str] = _ALL_AT_ONCE

    name: Literal["fedmed"] = "fedmed"
    top_fraction: Annotated[float, Range("in (0, 1]", lambda share: 0 < share <= 1)] = 1.0
    mediation_threshold: NotNegative = 0.1
    local_loss: Literal["during_training", "after_training"] = "after_training"
    layer_groups: LayerGroups = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivateFedAtt(_Rule):
    """FedAtt as one Gaussian mechanism (docs/privacy/private_fedatt.md).

    `clip_norm` of `[aggregation.privacy]` bounds each layer, not the whole delta.

    Attributes:
      attention_bound: B >= 0; attention weights lie in [1, e^B].
      denominator_floor: The least value a noisy denominator may take, in clients of full
        attention, > 0.
      layer_groups: Groups of layers; see "fedatt". Few layers cost less noise.
    """

    name: Literal["private_fedatt"] = "private_fedatt"
    attention_bound: NotNegative = 1.0
    denominator_floor: Positive = 1.0
    layer_groups: LayerGroups = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Median(_Rule):
    """The median of each coordinate."""

    privacy_problem: ClassVar[str] = _ORDER_STATISTICS

    name: Literal["median"] = "median"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrimmedMean(_Rule):
    """The mean of each coordinate without its extremes.

    Attributes:
      trim_fraction: Share cut on each side, in [0, 0.5).
    """

    privacy_problem: ClassVar[str] = _ORDER_STATISTICS

    name: Literal["trimmed_mean"] = "trimmed_mean"
    trim_fraction: Annotated[float, Range("in [0, 0.5)", lambda share: 0 <= share < 0.5)] = 0.1


@dataclasses.dataclass(frozen=True, kw_only=True)
class BoundedTrimmedMean(_Rule):
    """The trimmed mean of bounded deltas: a defence (docs/attacks.md).

    Attributes:
      attackers: Share of all people who may attack, in (0, 0.5). Each coordinate is cut on each
        side by the most attackers that a cohort drawn at random holds in 999 rounds of 1,000: of
        0.1, by 7 of 20 clients, 20 of 100. Where clients check in by text it is
        `train.check_in_factor` times the share of the accounts.
    """

    privacy_problem: ClassVar[str] = _ORDER_STATISTICS

    name: Literal["bounded_trimmed_mean"] = "bounded_trimmed_mean"
    attackers: Annotated[float, Range("in (0, 0.5)", lambda share: 0 < share < 0.5)] = 0.1


# They leave out what is extreme in a cohort, and hold while attackers are few in it.
ORDER_STATISTICS = (Median, TrimmedMean, BoundedTrimmedMean)

Rule: TypeAlias = Mean | FedAtt | FedMed | PrivateFedAtt | Median | TrimmedMean | BoundedTrimmedMean
RULES: Mapping[str, type[Rule]] = variants(Rule)


def check_layer_groups(groups: LayerGroups) -> None:
    """Raises `ValueError` unless every group has members and no variable is in two."""
    seen: dict[str, str] = {}
    for group, members in groups.items():
        if not members:
            raise ValueError(
                f"`aggregation.rule.layer_groups.{group}` is empty: name its variables or remove "
                "it."
            )
        for member in members:
            if member in seen:
                raise ValueError(
                    f"`aggregation.rule.layer_groups`: variable {member!r} is in "
                    f"{seen[member]!r} and {group!r}; each variable belongs to one group."
                )
            seen[member] = group
