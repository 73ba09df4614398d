"""`[train]` and `[evaluation]`: rounds, cohorts, checkpoints, stopping and evaluation."""

import dataclasses
from typing import Annotated, Literal

from tff_keyboard.config.reading.tables import Table
from tff_keyboard.storage.checks import Fraction, FromOne, FromZero, at_least

MAX_SAMPLING_RATIO = 100.0  # with a larger factor, 1 % of the accounts could fill a cohort


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainConfig(Table, path="train"):
    """Rounds, cohorts, checkpoints and stopping.

    Attributes:
      rounds: Total number of federated rounds.
      clients_per_round: Number of client updates that a round aggregates (the report goal).
      seed: Cohorts, data order and initial weights depend only on the seed and the round. In a
        private run (`aggregation.privacy`), cohorts and noise also depend on its secret key.
      client_sampling: How clients are sampled. "uniform": all with the same probability.
        "proportional": in proportion to their number of messages in units of
        `client.max_examples`, but at least one unit, like a phone that trains on the messages typed
        since its last training. Every message then has the same weight, instead of every client.
      max_sampling_ratio: Bound on "proportional" sampling, in [1, 100]: no client is sampled more
        than this many times as often as the average client. A share s of the accounts then has at
        most s times this factor of a cohort, whatever text they claim to have (docs/attacks.md). 0
        means no bound.
      over_selection: The server selects ceil(over_selection * clients_per_round) clients and uses
        the first `clients_per_round` that report; >= 1.
      dropout_rate: Probability that a selected client never reports, in [0, 1).
      min_separation_rounds: Minimum distance in rounds between two participations of a client; 1
        allows every round.
      excluded_client: Position (in sorted order) of a train client whose data is excluded from all
        its cohorts, without any change for other clients. Privacy audits compare such a run with
        one that excludes no client, -1.
      checkpoint_every: Rounds between checkpoints.
      keep_checkpoints: Number of newest checkpoints to keep, in addition to the best one.
      best_metric: Validation metric that chooses the best model and triggers early stopping: a name
        in `evaluation.metrics.metric_table.FEDERATED_METRICS`, or another one that
        `training/validation.py` lists, such as "trade_off/perplexity" of a fine-tuning run.
      final_model: The model in `model/` after the run: "best" on validation, or "last".
      early_stop_patience: Evaluations without improvement before training ends; 0 means never.
      max_rejected_rounds: Consecutive rounds without a usable update before training fails.
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluationConfig(Table, path="evaluation"):
    """Federated evaluation on clients that were not trained on.

    Attributes:
      every: Rounds between validation evaluations; the last round is always evaluated.
      clients: Validation clients in each evaluation, always the same ones, drawn by seed; 0 means
        all.
      max_examples: Maximum number of messages of a client, drawn by seed; 0 means all.
      batch_size: Messages in a batch.
    """

    every: FromOne = 10
    clients: FromZero = 0
    max_examples: FromZero = 0
    batch_size: FromOne = 64
