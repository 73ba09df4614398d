"""The TOML file of a study: its trainings, their seeds, and their control.

    question = "Do FedAtt and FedMed beat FedAvg?"
    control = "fedavg_epsilon"
    seeds = [1, 2, 3]
    set = ["train.rounds=300"]

    [[arms]]
    name = "fedavg_epsilon"
    label = "FedAvg, server rate 1.2"
    config = "../features/equal_clients.toml"

    [[sweeps]]
    key = "client.epochs"
    values = [1, 5, 10]

    [[models]]
    name = "ngram"
    model = "ngram:1.25M"

    [budget]
    hours = 24.0

An arm is a config. With a table [tuning], each arm lists as many `trials`, one list of overrides
each. They are trained first, with a seed of their own, and the arm takes the best one:

    [tuning]
    trials = 2
    seed = 101

    [[arms]]
    name = "fedprox"
    config = "../persuasion_for_good.toml"
    trials = [["client.proximal_strength=0.01"], ["client.proximal_strength=0.1"]]

A sweep repeats every arm, or the arms that it names, with a key set to each
value. A model is compared with the arms but not trained from a config. A config's path is relative
to the study's file.
"""

import dataclasses
import pathlib
import re
import typing
from typing import Literal

from tff_keyboard.evaluation.metrics.metric_table import METRICS
from tff_keyboard.evaluation.model_specs import references
from tff_keyboard.parts import tables
from tff_keyboard.storage import checks, toml
from tff_keyboard.storage.errors import ConfigError

Population = Literal["validation", "held_out", "general"]
_NAME = re.compile(r"[a-z0-9][a-z0-9_]*")
_OF_ARM = re.compile(r"\{(.*)\}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arm(tables.Table, path="arms"):
    """One training of a study."""

    name: str  # start of the names of its runs; small letters, digits and underscores
    config: str  # TOML file, relative to the study's
    label: str = ""  # name in tables and pictures; `name` if empty
    task: Literal["train", "train-server"] = "train"  # the task that trains it
    # Arm that must be finished first; `{after}` in `set` is its run of the same seed and sweep.
    after: str = ""
    # Arm from which this one differs in one setting; a table shows the effect. "" for none.
    step_from: str = ""
    set: tuple[str, ...] = ()  # overrides `section.key=value` of this arm, after those of the study
    seeds: tuple[int, ...] = ()  # seeds instead of the study's
    # Overrides of each trial of the tuning, after those in `set`
    trials: tuple[tuple[str, ...], ...] = ()
    paper: str = ""  # result in the paper, as text

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_name("arms.name", self.name)
        _require_different("arms.seeds", self.seeds)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Model(tables.Table, path="models"):
    """A model next to the arms, made from the text of the control's train clients."""

    name: str
    # A baseline of `compare`, such as `ngram:1.25M`, or `hybrid:{ARM}`: each run of an arm with an
    # n-gram and the user's own words.
    model: str
    label: str = ""
    paper: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_name("models.name", self.name)
        path = references.path_of(self.model)
        is_allowed = path is None or (
            references.is_hybrid(self.model) and bool(_OF_ARM.fullmatch(str(path)))
        )
        self.require(is_allowed, "model", "must be a baseline or hybrid:{ARM}")

    @property
    def arm(self) -> str:
        """The arm whose runs it uses; "" for none."""
        match = _OF_ARM.search(self.model)
        return match[1] if match else ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sweep(tables.Table, path="sweeps"):
    """A key of the config, and its values."""

    key: str  # dotted, such as `client.epochs`
    values: tuple[str, ...]  # values of the key, as TOML writes them
    arms: tuple[str, ...] = ()  # Names; all if empty. The control is always among them.
    seeds: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.require(bool(self.values), "sweeps.values", "must not be empty", [])
        self.require("." in self.key, "key", "must be `section.key`")
        _require_different("sweeps.seeds", self.seeds)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tuning(tables.Table, path="tuning"):
    """The trials from which each arm takes its best, judged on validation clients."""

    trials: checks.FromOne  # number of trials of every arm
    seed: int  # `train.seed` of all trials
    # Metric of the last validation of a trial, which decides; a tie takes the earlier trial
    metric: str = "recall_at_3_no_eos"

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_metric("tuning.metric", self.metric)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Budget(tables.Table, path="budget"):
    """Limits of all runs of a study together, after which no further run begins; 0 is no limit."""

    hours: checks.NotNegative = 0.0
    tokens_m: checks.NotNegative = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        limits = self.hours > 0 or self.tokens_m > 0
        self.require(
            limits, "hours", "or `budget.tokens_m` must be > 0", "Leave [budget] out for no limit."
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Study(tables.Table):
    """A study: its arms, its control, and how they are compared."""

    question: str
    control: str  # the arm with which all others are compared
    # An arm of one seed from which others start (their `after`); a table shows their gains since.
    # "" for none.
    before: str = ""
    arms: tuple[Arm, ...]
    sweeps: tuple[Sweep, ...] = ()
    models: tuple[Model, ...] = ()
    # Values of `train.seed`. All arms train with the first seed before any trains with the second.
    seeds: tuple[int, ...] = (1,)
    # Populations to evaluate on; "general" is the general corpus of a fine-tuning run.
    populations: tuple[Population, ...] = ("validation", "held_out")
    # Columns of the tables; the first one decides.
    metrics: tuple[str, ...] = ("recall_at_1_no_eos", "recall_at_3_no_eos", "perplexity")
    max_messages: checks.FromZero = 0  # evaluated messages of each client; 0 for all
    # Validation perplexity for the column "rounds to target"; 0 for none.
    target: checks.NotNegative = 0.0
    # A curve is flat if the last quarter of its rounds lowered the validation perplexity by at most
    # this share.
    flat_within: checks.Fraction = 0.01
    # Columns "rounds" and "MB" until the first validation of an arm with at least this share of the
    # control's last `reach_metric` with the same seed; 0 for none.
    reach_share: checks.Share = 0.0
    reach_metric: str = "recall_at_3_no_eos"
    worst_tenth: str = ""  # metric whose mean over the worst tenth of clients is a column
    set: tuple[str, ...] = ()
    tuning: Tuning | None = None
    budget: Budget | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        names = [arm.name for arm in self.arms]
        rule_of_arms = f"must be one of {', '.join(names)}"
        checks.require(
            len(set(names)) == len(names), "arms.name", "must differ from arm to arm", names
        )
        both = [*names, *(model.name for model in self.models)]
        rule = "must differ from each other and from the arms'"
        checks.require(len(set(both)) == len(both), "models.name", rule, both)
        for model in self.models:
            rule = f"must name one of {', '.join(names)} in {{}}"
            checks.require(model.arm in ("", *names), "models.model", rule, model.model)
        self.require(self.control in names, "control", rule_of_arms)
        if self.before:
            self.require(self.before in names, "before", rule_of_arms)
            seeds = self.arm(self.before).seeds or self.seeds
            self.require(len(seeds) == 1, "before", "must have one seed, its own `seeds`")
            followed = any(arm.after == self.before for arm in self.arms)
            self.require(followed, "before", "must be an arm that another arm comes `after`")
        for index, arm in enumerate(self.arms):
            for key in ("after", "step_from"):
                other = getattr(arm, key)
                earlier = other in ("", *names[:index])
                checks.require(earlier, f"arms.{key}", "must name an earlier arm", other)
        for sweep in self.sweeps:
            for name in sweep.arms:
                checks.require(name in names, "sweeps.arms", rule_of_arms, name)
        for name in self.metrics:
            _require_metric("metrics", name)
        _require_metric("reach_metric", self.reach_metric)
        self.require(
            METRICS[self.reach_metric].better == "higher",
            "reach_metric",
            "must be a metric of which more is better",
        )
        if self.worst_tenth:
            _require_metric("worst_tenth", self.worst_tenth)
        self._check_trials()
        for name in self.populations:
            checks.require_one_of("populations", name, typing.get_args(Population))
        _require_different("seeds", self.seeds)
        for key in ("arms", "seeds", "metrics", "populations"):
            checks.require(len(getattr(self, key)) > 0, key, "must not be empty", [])

    def _check_trials(self) -> None:
        """Checks that every arm has the same number of trials, so that the budgets are equal."""
        number = self.tuning.trials if self.tuning else 0
        for arm in self.arms:
            rule = f"must be {number} lists, as many as `tuning.trials` says"
            if not self.tuning:
                rule = "needs the table [tuning]"
            checks.require(len(arm.trials) == number, "arms.trials", rule, list(arm.trials))
            if self.tuning:
                checks.require(
                    not arm.after, "arms.after", "must be empty in a tuned study", arm.after
                )

    def arm(self, name: str) -> Arm:
        """Returns the arm with a name."""
        return next(arm for arm in self.arms if arm.name == name)

    def row(self, name: str) -> Arm | Model:
        """Returns the arm or the model with a name."""
        rows: list[Arm | Model] = [*self.arms, *self.models]
        return next(row for row in rows if row.name == name)


def load(path: pathlib.Path) -> Study:
    """Reads a study.

    Raises:
      ConfigError: If it is not valid. The message names file and key.
    """
    try:
        values = toml.parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"Cannot read {path}: {error.strerror}.") from None
    except ValueError as error:  # no UTF-8, or no TOML
        raise ConfigError(f"{path}: {error}") from None
    try:
        for sweep in values.get("sweeps", ()):
            if isinstance(sweep, dict) and isinstance(sweep.get("values"), list):
                sweep["values"] = [_as_override(value) for value in sweep["values"]]
        return tables.build(Study, values)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None


def _require_name(key: str, name: str) -> None:
    rule = "must be small letters, digits and underscores"
    checks.require(bool(_NAME.fullmatch(name)), key, rule, name)


def _require_metric(key: str, name: str) -> None:
    checks.require(name in METRICS, key, "must be in evaluation/metrics/metric_table.py", name)


def _require_different(name: str, seeds: tuple[int, ...]) -> None:
    checks.require(len(set(seeds)) == len(seeds), name, "must differ from each other", list(seeds))


def _as_override(value: object) -> str:
    """Returns a TOML value in the form of `section.key=value`."""
    return str(value).lower() if isinstance(value, bool) else str(value)
