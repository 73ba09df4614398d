"""The base class of aggregators in configs: their options and their properties.

Each module of `aggregators/registry/` defines one aggregator:

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class TrimmedMeanConfig(Aggregator):
        factory: ClassVar[str] = "tff_keyboard.aggregators.robust_mean:TrimmedMeanFactory"

        type: Literal["trimmed_mean"] = "trimmed_mean"
        trim_fraction: Annotated[float, Range("in [0, 0.5)", ...)] = 0.1

`factory` names the code that imports TensorFlow, as text, so that reading a config does not import
it. An aggregator with little code has it in the same module, in `build` (`multi_krum.py`).
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

from tff_keyboard.parts import calls
from tff_keyboard.parts.registry import Registry
from tff_keyboard.parts.tables import Table

KEEPS_SENSITIVITY = "keeps_sensitivity"  # attribute of a user's own part
SENSITIVITY_IS_UNKNOWN = (
    "its sensitivity is unknown, so there would be NO CLAIM. A part declares that the clip norm of "
    f"the mean bounds it with the attribute `{KEEPS_SENSITIVITY}` = True (docs/own_parts.md)."
)

AGGREGATORS = Registry("tff_keyboard.aggregators.registry")


@dataclasses.dataclass(frozen=True, kw_only=True)
class AggregatorRun:
    """The values that a run gives to its aggregator.

    Attributes:
      clients_per_round: The report goal.
      seed: `train.seed`.
      variable_names: Names of the tensors of an update, in order; None if they are unknown.
      privacy: The mechanism of a private run, a table `MechanismConfig`; None without one.
      takes_sums: Whether a private mean takes sums of updates. A mean takes the mean of a sum as
        one update.
    """

    clients_per_round: int
    seed: int = 0
    variable_names: Sequence[str] | None = None
    privacy: Any = None
    takes_sums: bool = False


class CohortSettings(Protocol):
    """The keys of `[train]` that determine the size of a cohort."""

    @property
    def clients_per_round(self) -> int:
        """The report goal."""

    @property
    def over_selection(self) -> float:
        """Clients that are asked, divided by the report goal."""

    @property
    def selected_per_round(self) -> int:
        """Clients that are asked."""

    @property
    def dropout_rate(self) -> float:
        """Share of the clients that do not report."""


class FewReports(NamedTuple):
    """The smallest number of reports that a round is expected to have.

    Attributes:
      reports: The number.
      cause: The key that allows so few, as the beginning of a warning.
      way_out: How to get more.
    """

    reports: int
    cause: str
    way_out: str


def few_reports(train: CohortSettings, min_reports: int) -> FewReports:
    """Returns the smallest number of reports of a round; `min_reports` as for `check_cohort`."""
    if min_reports:
        return FewReports(
            min_reports,
            f"`devices.min_report_fraction` allows rounds with {min_reports}",
            "Set `devices.min_report_fraction` = 1.",
        )
    reports = int(train.selected_per_round * (1 - train.dropout_rate))
    reports = min(train.clients_per_round, reports)
    return FewReports(
        reports,
        f"`train.dropout_rate` = {train.dropout_rate:g} leaves about {reports}",
        "Raise `train.over_selection`.",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Aggregator(Table, path="aggregation.rule"):
    """The options of an aggregator.

    Class attributes are its properties, which other tables and a run ask for:

    - `factory`: "module:class" of its TFF factory, for `build`.
    - `averages`: whether the default protection applies before it.
    - `privacy_problem`: why no mechanism gives it a guarantee, or "".
    - `required_privacy`, `required_privacy_reason`: the only mechanism that it works with, and why;
      or "".
    - `is_mean`: whether it is the mean of updates, so that mechanisms on a grid of integers and
      projections to a larger cohort apply.
    - `is_robust`: whether it ignores the extremes of a cohort, so that it resists attacks while few
      clients of the cohort attack.
    - `attacker_share`: the key with the share of attackers in a cohort that it resists, or "".
    - `secure_sum_problem`: why it cannot be computed from sums of updates, or "".
    - `learning_process`: "module:function" of the builder of its learning process, if its clients
      send more than an update and a weight; otherwise "".
    """

    REGISTRY: ClassVar[Registry] = AGGREGATORS

    factory: ClassVar[str] = ""
    averages: ClassVar[bool] = False
    privacy_problem: ClassVar[str] = ""
    required_privacy: ClassVar[str] = ""
    required_privacy_reason: ClassVar[str] = ""
    is_mean: ClassVar[bool] = False
    is_robust: ClassVar[bool] = False
    attacker_share: ClassVar[str] = ""
    secure_sum_problem: ClassVar[str] = ""
    learning_process: ClassVar[str] = ""
    type: str

    @property
    def reported_loss(self) -> str:
        """The loss that clients report, "during_training" or "after_training"; "" for none."""
        return ""

    @property
    def uses_all_clients(self) -> bool:
        """Whether the update of every client of a round can matter."""
        return True

    def top_count(self, clients: int) -> int:
        """Returns how many clients of a round contribute, the ones with the lowest loss."""
        return clients

    def build(self, run: AggregatorRun) -> Any:
        """Builds the TFF factory, weighted or not, without protection.

        Raises `ValueError` if the options do not fit the run.
        """
        return calls.call(self.factory, self.arguments(), vars(run))

    def check_types(self, run: AggregatorRun, shapes: Sequence[Sequence[int]]) -> None:
        """Checks that the aggregator takes and returns updates with these shapes.

        The aggregators of this package do.

        Raises:
          ConfigError: It does not, or a user's own part raises an error.
        """

    def limit_weight(self, limit: Any, vocabulary_size: int) -> Any:
        """Returns the bounds on a client's weight, given the bounds on a number (`WeightLimit`)."""
        return limit

    def check_cohort(self, train: CohortSettings, *, min_reports: int = 0) -> None:
        """Checks that cohorts are large enough. Raises `ConfigError`, or warns.

        Args:
          train: The table `[train]`.
          min_reports: Smallest number of devices in a round; 0 if clients are simulated.
        """


def layer_groups_problem(groups: Mapping[str, Sequence[int | str]], name: str) -> str:
    """Returns why groups of variables are not disjoint and not empty; "" if they are.

    >>> layer_groups_problem({"a": ["x"], "b": ["x"]}, "layer_groups")
    "`layer_groups`: variable 'x' is in 'a' and 'b'; each variable belongs to one group."
    """
    owner: dict[int | str, str] = {}
    for group, members in groups.items():
        if not members:
            return f"`{name}.{group}` is empty. Add its variables, or remove it."
        for member in members:
            if member in owner:
                return (
                    f"`{name}`: variable {member!r} is in {owner[member]!r} and {group!r}; each "
                    "variable belongs to one group."
                )
            owner[member] = group
    return ""
