"""`[train]` and `[evaluation]`: rounds, cohorts, checkpoints, stopping and evaluation."""

import dataclasses
import inspect
import math
import re
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal

from tff_keyboard.parts.own_part import OwnPart
from tff_keyboard.parts.tables import Table
from tff_keyboard.storage.checks import Fraction, FromOne, FromZero, at_least
from tff_keyboard.storage.errors import ConfigError

_NAME = re.compile("[a-z][a-z0-9_]*")
MAX_SAMPLING_RATIO = 100.0  # with a larger factor, 1 % of the accounts could fill a cohort


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainConfig(Table, path="train"):
    """Rounds, cohorts, checkpoints and stopping.

    Attributes:
      rounds: Total number of rounds.
      clients_per_round: Number of client updates that the server aggregates in a round (the report
        goal).
      seed: Seed of the run. Cohorts, the order of the data and the initial weights depend only on
        the seed and the round. In a private run (`aggregation.privacy`), cohorts and noise also
        depend on the secret key of the run.
      client_sampling: How clients are sampled. "uniform": every client has the same probability.
        "proportional": the probability is proportional to the number of messages of the client, in
        units of `client.max_examples` and at least one unit. This simulates phones that train on
        the messages typed since their last training: every message then has the same weight,
        instead of every client.
      max_sampling_ratio: Bound on "proportional" sampling, in [1, 100]: no client is sampled more
        than this many times as often as the average client. If a share s of the accounts belongs to
        an attacker, these accounts get at most s times this number of the places in cohorts,
        whatever text they claim to have (docs/attacks.md). 0 means no bound.
      over_selection: Factor by which the server selects more clients than it needs, for clients
        that do not report. It selects ceil(over_selection * clients_per_round) clients and
        aggregates the first `clients_per_round` that report. 1 selects no additional clients.
      dropout_rate: Simulated probability that a selected client does not report.
      min_separation_rounds: Minimum number of rounds from one participation of a client to the
        next. With 1, a client can take part in consecutive rounds.
      excluded_client: Position, in sorted order, of a train client whose data is left out of every
        cohort. All other clients are treated as before. Privacy audits compare such a run with a
        run that excludes no client (-1).
      checkpoint_every: Number of rounds between two checkpoints.
      keep_checkpoints: Number of recent checkpoints to keep. The best checkpoint is kept in
        addition.
      best_metric: Validation metric that chooses the best model and controls early stopping. A name
        in `evaluation.metrics.metric_table.FEDERATED_METRICS`, or a metric that
        `training/validation.py` lists, such as "trade_off/perplexity" for fine-tuning.
      final_model: Model in the folder `model/` after the run: the best one on validation, or the
        last one.
      early_stop_patience: Number of consecutive evaluations without improvement after which the
        training ends; 0 never ends it early.
      max_rejected_rounds: Number of consecutive rounds without a usable update after which the
        training fails. It also fails at its end if no round had a usable update.
    """

    rounds: FromOne = 100
    clients_per_round: FromOne = 10
    seed: FromZero = 1
    client_sampling: Literal["uniform", "proportional"] = "uniform"
    max_sampling_ratio: float = 5.0
    over_selection: Annotated[float, at_least(1.0)] = 1.0
    dropout_rate: Fraction = 0.0
    min_separation_rounds: FromOne = 1
    excluded_client: Annotated[int, at_least(-1)] = -1
    checkpoint_every: FromOne = 5
    keep_checkpoints: FromOne = 3
    best_metric: str = "recall_at_1_no_eos"
    final_model: Literal["best", "last"] = "best"
    early_stop_patience: FromZero = 0
    max_rejected_rounds: FromOne = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(
            not self.max_sampling_ratio or 1 <= self.max_sampling_ratio <= MAX_SAMPLING_RATIO,
            "max_sampling_ratio",
            f"must be in [1, {MAX_SAMPLING_RATIO:g}], or 0 for no bound",
        )
        self.require(
            self.client_sampling == "proportional"
            or self.max_sampling_ratio == TrainConfig.max_sampling_ratio,
            "max_sampling_ratio",
            f"has no effect with `train.client_sampling` = {self.client_sampling!r}",
            "Remove it, or set `train.client_sampling` to 'proportional'.",
        )

    @property
    def selected_per_round(self) -> int:
        """Clients that the server selects in a round, with over-selection."""
        return selected_clients(self.clients_per_round, self.over_selection)


def selected_clients(clients: int, over_selection: float) -> int:
    """Returns ceil(over_selection * clients), the clients selected for a report goal.

    >>> selected_clients(10, 1.1)
    11
    """
    return math.ceil(round(over_selection * clients, 9))  # rounded, because 1.1 * 10 is above 11


@dataclasses.dataclass(frozen=True, kw_only=True)
class OwnMetric(OwnPart, path="evaluation.metrics"):
    """A metric of the user (docs/own_parts.md): a function with the parameter `scored`.

    Attributes:
      kind: "percent": a share between 0 and 1, printed in percent. "number": any ratio.
        "perplexity": exp of the ratio.
      better: Which values are better: "higher", "lower", or "" if the metric is a property of the
        text. Comparisons and the choice of the best round need it.
      label: A few words for tables. With "", its name.
    """

    GROUP: ClassVar[str] = "tff_keyboard.metrics"
    RUN_VALUES: ClassVar[tuple[str, ...]] = ("scored",)
    READS_TEXT: ClassVar[bool] = True

    kind: Literal["percent", "number", "perplexity"] = "percent"
    better: Literal["higher", "lower", ""] = "higher"
    label: str = ""

    def function(self) -> Callable[..., Any]:
        """Returns the part with its options: a function of `scored`.

        Raises:
          ConfigError: If the part cannot be loaded, or has no parameter `scored`.
        """
        function = self._load().part
        if "scored" not in inspect.signature(function).parameters:
            raise ConfigError(f"`{self.key}` = {self.type!r} must have the parameter `scored`.")
        return lambda scored: function(scored=scored, **self.settings)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluationConfig(Table, path="evaluation"):
    """Federated evaluation on clients that were not trained on.

    Attributes:
      every: Number of rounds between two evaluations on validation clients. The last round is
        always evaluated.
      clients: Number of validation clients in each evaluation. The same clients are used in every
        evaluation; they are drawn by seed. 0 uses all.
      max_examples: Maximum number of messages per client, drawn by seed; 0 uses all messages.
      batch_size: Number of messages in a batch. It affects the speed, not the results.
      metrics: Metrics of the user by name, each a table: `[evaluation.metrics.long_words]` with
        `type` = "file.py:function", the options of the function, and `kind`, `better` and `label`
        (docs/own_parts.md). A name has small letters, digits and underscores.
    """

    every: FromOne = 10
    clients: FromZero = 0
    max_examples: FromZero = 0
    batch_size: FromOne = 64
    metrics: dict[str, OwnMetric] = dataclasses.field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.metrics:
            if not _NAME.fullmatch(name):
                raise ValueError(
                    f"`evaluation.metrics.{name}`: a name of a metric must have small letters, "
                    "digits and underscores only, and begin with a letter."
                )
