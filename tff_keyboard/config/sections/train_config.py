"""The training program and its evaluations."""

import dataclasses
from typing import Annotated, Literal, TypeAlias

from tff_keyboard.config.reading.checks import Fraction, FromOne, FromZero, Range, at_least, require
from tff_keyboard.config.reading.tables import Table

MOST_CHECK_IN_FACTOR = 100.0  # with more than this, 1 % of the accounts may be everybody


@dataclasses.dataclass(frozen=True, kw_only=True)
class SteadyCohort(Table, path="train.cohort"):
    """`train.clients_per_round` clients in every round."""

    kind: Literal["steady"] = "steady"


@dataclasses.dataclass(frozen=True, kw_only=True)
class GrowingCohort(Table, path="train.cohort"):
    """`train.clients_per_round` clients at first, then more: calms a training as decay does.

    Attributes:
      every_rounds: Rounds between steps of growth, >= 1.
      factor: Factor of growth at each step, > 1.
      most: Clients of a round at most.
    """

    kind: Literal["growing"] = "growing"
    every_rounds: FromOne
    factor: Annotated[float, Range("> 1", lambda factor: 1 < factor < 1e6)] = 2.0
    most: FromOne


CohortConfig: TypeAlias = SteadyCohort | GrowingCohort


def clients_in_round(cohort: CohortConfig, clients_per_round: int, round_num: int) -> int:
    """Clients of a round, a pure function of its number (rounds before 1 are as round 1).

    >>> growing = GrowingCohort(every_rounds=10, most=35)
    >>> [clients_in_round(growing, 10, t) for t in (0, 1, 10, 11, 21, 10**9)]
    [10, 10, 10, 20, 35, 35]
    """
    if isinstance(cohort, SteadyCohort):
        return clients_per_round
    steps = (max(round_num, 1) - 1) // cohort.every_rounds
    grown, most = float(clients_per_round), max(cohort.most, clients_per_round)
    for _ in range(steps):
        grown *= cohort.factor
        if grown >= most:
            return most
    return round(grown)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainConfig(Table, path="train"):
    """Rounds, cohorts, checkpoints and stopping.

    Attributes:
      rounds: Federated rounds in all.
      clients_per_round: Clients whose deltas a round aggregates (the report goal).
      cohort: Whether that number grows, by `kind`.
      seed: Cohorts, data order and initial weights are functions of it and the round. Of a private
        run (`aggregation.privacy`), cohorts and noise hang on its secret key, too.
      check_in: How often a client is drawn: "uniform", all alike; or "by_text", who has k times
        `client.max_examples` messages k times as often as who has no more than that, as a phone
        that trains on what was typed since it last did. Then every message counts alike, not
        every person.
      check_in_factor: Bound on drawing "by_text", in [1, 100]: nobody is drawn more than this many
        times as often as the average person. A share s of the accounts has at most s times this of
        a cohort, whatever text they claim (docs/attacks.md). 0 is no bound.
      over_selection: The server selects ceil(this * clients_per_round) clients and takes the
        first `clients_per_round` that report; >= 1.
      dropout_rate: Chance that a selected client never reports, in [0, 1).
      min_separation_rounds: A client is selected again only this many rounds later; 1 means any
        round.
      left_out_client: Position (in sorted order) of a train client whose data is left out of all
        cohorts it is drawn for; everyone else trains as before. Audits of privacy compare such a
        run with one where nobody is left out, -1.
      checkpoint_every: Rounds between checkpoints.
      keep_checkpoints: Newest checkpoints kept, beside the best one.
      best_metric: Validation metric that chooses the best model and decides on stopping early: a
        name of `evaluation.metrics.metric_table.FEDERATED_METRICS`, or another that
        `federated/learning/validation.py` lists, such as "trade_off/perplexity" of a fine-tuning
        run.
      best_mode: "max" or "min".
      final_model: The model that the run leaves in `model/`: "best" on validation, or "last".
      early_stop_patience: Evaluations without improvement before training ends; 0 means never.
      max_rejected_rounds: Consecutive rounds without a usable update before training fails.
    """

    rounds: FromOne = 100
    clients_per_round: FromOne = 10
    cohort: CohortConfig = dataclasses.field(default_factory=SteadyCohort)
    seed: FromZero = 1
    check_in: Literal["uniform", "by_text"] = "uniform"
    check_in_factor: float = 5.0
    over_selection: Annotated[float, at_least(1.0)] = 1.0
    dropout_rate: Fraction = 0.0
    min_separation_rounds: FromOne = 1
    left_out_client: Annotated[int, at_least(-1)] = -1
    checkpoint_every: FromOne = 5
    keep_checkpoints: FromOne = 3
    best_metric: str = "recall_at_1_no_eos"
    best_mode: Literal["max", "min"] = "max"
    final_model: Literal["best", "last"] = "best"
    early_stop_patience: FromZero = 0
    max_rejected_rounds: FromOne = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.cohort, GrowingCohort):
            require(
                self.cohort.most > self.clients_per_round,
                "train.cohort.most",
                f"must be > `train.clients_per_round` = {self.clients_per_round}",
                self.cohort.most,
            )
        self.require(
            not self.check_in_factor or 1 <= self.check_in_factor <= MOST_CHECK_IN_FACTOR,
            "check_in_factor",
            f"must be in [1, {MOST_CHECK_IN_FACTOR:g}], or 0 for no bound",
        )
        self.require(
            self.check_in == "by_text" or self.check_in_factor == TrainConfig.check_in_factor,
            "check_in_factor",
            f"has no effect with `train.check_in` = {self.check_in!r}",
            "Remove it, or set `train.check_in` to 'by_text'.",
        )

    @property
    def most_clients_per_round(self) -> int:
        """Most clients of any round."""
        if isinstance(self.cohort, GrowingCohort):
            return self.cohort.most
        return self.clients_per_round

    def clients_in_round(self, round_num: int) -> int:
        """Clients of round `round_num`."""
        return clients_in_round(self.cohort, self.clients_per_round, round_num)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluationConfig(Table, path="evaluation"):
    """Federated evaluation on people the model never trained on.

    Attributes:
      every: Rounds between validation evaluations; the last round is always evaluated.
      clients: Validation clients in each, the same ones every time, drawn by seed; 0 means all.
      max_examples: Messages of a client that count, drawn by seed; 0 means all.
      batch_size: Messages in a batch.
      keystroke_words: Words of each population on which keystroke savings are measured, too; 0
        means none. About 8,000 a second on two cores.
    """

    every: FromOne = 10
    clients: FromZero = 0
    max_examples: FromZero = 0
    batch_size: FromOne = 64
    keystroke_words: FromZero = 0
