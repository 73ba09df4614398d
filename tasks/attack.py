"""Measures what an aggregation rule withstands: the same training, clean and under attack.

tff-keyboard attack --config=configs/aggregation/sms_fedatt.toml --workdir=runs/attack --unprotected

A seeded share of clients attacks: sends NaN, its delta a hundredfold or with the sign flipped, the
latter also with a millionfold weight, trains on shuffled labels, or drops out. Cohorts, data and
seeds are those of the clean run. Give --config several times to compare rules. Prints top-1 recall
and perplexity on validation and held-out people, and the paired difference to the clean run of the
same rule; writes them to WORKDIR/attacks.json. Each training is a run directory that resumes:
interrupted, run the same command again. A model that has learnt nothing yet has nothing to lose:
train for long enough, or start from a trained one with --set=model.initial_model=RUN.

Trainings keep their last model and never end early: choosing the best one on validation would hide
an attack that came later, and so would stopping at it.
"""

import dataclasses
import functools
import json
import pathlib
import typing
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tasks import run_results
from tasks.options import Range, TaskOptions
from tff_keyboard import config as config_lib
from tff_keyboard import quiet
from tff_keyboard.config.aggregation_config import NoClipping
from tff_keyboard.storage import files
from tff_keyboard.storage.errors import UsageError
from tff_keyboard.training import preflight

if TYPE_CHECKING:
    from tff_keyboard.evaluation.result import Evaluation

AttackName = Literal["nan", "boost", "sign_flip", "weight_lie", "shuffled_labels", "drop_out"]
ALL_ATTACKS: tuple[AttackName, ...] = typing.get_args(AttackName)
CLEAN = "clean"
UNPROTECTED = "_unprotected"  # ends the name of a variant
TOLERANCE = 0.01  # of top-1 recall: one point
METRIC = "recall_at_1_no_eos"
SECOND_METRIC = "perplexity"
POPULATIONS = ("validation", "held_out")

MARKER = "attack.json"
RESULTS = "attacks.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """What the task can be told."""

    config: Annotated[tuple[pathlib.Path, ...], "TOML file of a run; repeated, one a rule."] = ()
    workdir: Annotated[pathlib.Path, "Folder of the runs, new or to be resumed."]
    attacks: Annotated[tuple[AttackName, ...], f"Of {', '.join(ALL_ATTACKS)}."] = ALL_ATTACKS
    share: Annotated[float, "Share of clients that attack.", Range(0, 1)] = 0.1
    unprotected: Annotated[
        bool, "Also run each rule without zeroing and clipping. NaN is refused all the same."
    ] = False
    set: Annotated[
        tuple[str, ...], "Override `section.key=value` of every config; may be repeated."
    ] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.config:
            raise UsageError("Give --config=FILE.toml at least once.")
        if len({path.stem for path in self.config}) < len(self.config):
            raise UsageError("Two --config files have one name, and so would their runs.")


def run(options: Options) -> None:
    """Trains and evaluates whatever is not done yet, and prints the comparison."""
    configs = {path.stem: config_lib.load(path, options.set) for path in options.config}
    for config in configs.values():
        preflight.check_population(config)
    study(
        configs,
        options.workdir,
        attacks=options.attacks,
        share=options.share,
        unprotected=options.unprotected,
    )


def study(
    configs: Mapping[str, config_lib.RunConfig],
    workdir: pathlib.Path,
    *,
    attacks: Sequence[str] = ALL_ATTACKS,
    share: float = 0.1,
    unprotected: bool = False,
) -> list[dict[str, Any]]:
    """Trains and evaluates whatever is not done yet; writes the results after each run.

    Args:
      configs: Name of a rule -> config. The name becomes a folder.
      workdir: Folder of the runs: WORKDIR/<rule>/<attack>/run.
      attacks: Of `ALL_ATTACKS`; the clean run is always there.
      share: Of clients that attack, in [0, 1].
      unprotected: Whether each rule is also run without zeroing and clipping.

    Returns:
      What attacks.json holds: a row for each rule and attack, with `recall`, `perplexity` and,
      except for the clean run, `difference` of recall and `perplexity_factor`, by population
      (value, low, high), and a `verdict` on the recall.

    Raises:
      UsageError: WORKDIR holds runs of another attack.
    """
    rules = variants(configs, unprotected)
    for rule, config in rules.items():  # all of them before the first training
        for attack in attacks:
            seed = config.train.seed
            _mark(workdir / rule / attack, {"attack": attack, "share": share, "seed": seed})
    rows: list[dict[str, Any]] = []
    quiet.import_tensorflow_federated()
    from tff_keyboard.evaluation.run_evaluation import kept_evaluation

    for rule, config in rules.items():
        clean: dict[str, Evaluation] = {}
        for attack in (CLEAN, *dict.fromkeys(attacks)):
            print(f"== {rule}, {attack}", flush=True)
            path = _train(config, workdir / rule / attack, attack, share)
            results = {people: kept_evaluation(path, people) for people in POPULATIONS}
            clean = clean or results
            rows.append(_row(rule, attack, config, share, path, results, clean))
            files.write_atomically(workdir / RESULTS, [json.dumps(rows, indent=1).encode()])
    print(table(rows))
    print(f"\nAll figures: {workdir / RESULTS}")
    return rows


def variants(
    configs: Mapping[str, config_lib.RunConfig], unprotected: bool
) -> dict[str, config_lib.RunConfig]:
    """The trainings to attack by name: as configured and, if asked for, without protection.

    A rule that has no protection to lose has no second variant.
    """
    found = {}
    for name, config in configs.items():
        fixed = dataclasses.replace(
            config.train,
            final_model="last",
            early_stop_patience=0,
            max_rejected_rounds=config.train.rounds,
        )
        found[name] = dataclasses.replace(config, train=fixed)
        if unprotected and config.aggregation.resolved_protection != NoClipping():
            bare = dataclasses.replace(config.aggregation, protection=NoClipping())
            found[name + UNPROTECTED] = dataclasses.replace(found[name], aggregation=bare)
    return found


def _train(
    config: config_lib.RunConfig, folder: pathlib.Path, attack: str, share: float
) -> pathlib.Path:
    """Trains in `folder`/run unless that is done; returns it."""
    quiet.import_tensorflow_federated()
    from tff_keyboard.learning import attacks
    from tff_keyboard.training.federated import train_federated

    wrap = None
    if attack != CLEAN:
        wrap = functools.partial(
            attacks.build_attacked_client_work,
            attack=attack,
            share=share,
            seed=config.train.seed,
        )
    train_federated(config, folder / "run", wrap_client_work=wrap)
    return folder / "run"


def _mark(folder: pathlib.Path, facts: dict[str, Any]) -> None:
    """Writes what the run in `folder` suffers, or refuses to go on with something else."""
    path = folder / MARKER
    if not path.exists():
        if (folder / "run").exists():
            raise UsageError(
                f"{folder} holds a run but no {MARKER}: nobody knows how it was attacked. "
                "Give another --workdir."
            )
        files.make_directory(folder)
        files.write_atomically(path, [json.dumps(facts).encode()])
        return
    before = json.loads(path.read_text(encoding="utf-8"))
    if before != facts:
        raise UsageError(
            f"{folder} was begun with {before}, now it is {facts}. Give another --workdir."
        )


def _row(rule, attack, config, share, path, results, clean) -> dict[str, Any]:
    training = run_results.training_rows(path)
    row = {
        "rule": rule,
        "attack": attack,
        "share": 0.0 if attack == CLEAN else share,
        "seed": config.train.seed,
        "rounds": len(training),
        "clients_per_round": config.train.clients_per_round,
        "refused_updates": int(run_results.total(training, "refused_non_finite")),
        "capped_weights": int(run_results.total(training, "capped_weights")),
        "rejected_rounds": int(run_results.total(training, "rejected")),
        "recall": _values(results, METRIC),
        "perplexity": _values(results, SECOND_METRIC),
    }
    if attack != CLEAN:
        row["difference"] = _values(results, METRIC, clean)
        row["perplexity_factor"] = _values(results, SECOND_METRIC, clean)
        row["verdict"] = {people: verdict(value) for people, value in row["difference"].items()}
    return row


def _values(
    results: "Mapping[str, Evaluation]",
    metric: str,
    clean: "Mapping[str, Evaluation] | None" = None,
) -> dict[str, dict[str, float | None]]:
    """Population -> the metric, or its paired difference to (a perplexity: ratio to) `clean`."""
    from tff_keyboard.evaluation.sums import metric_difference

    return {
        people: (
            result.metrics[metric]
            if clean is None
            else metric_difference(result.sums, clean[people].sums, metric)
        ).to_json()
        for people, result in results.items()
    }


def verdict(difference: Mapping[str, float | None], tolerance: float = TOLERANCE) -> str:
    """Whether an attacked run stays within `tolerance` of the clean one.

    "holds": the whole interval does. "fails": none of it. "open": the interval has both.

    >>> verdict({"value": -0.001, "low": -0.004, "high": 0.002})
    'holds'
    >>> verdict({"value": -0.03, "low": -0.05, "high": -0.01})
    'fails'
    >>> verdict({"value": -0.008, "low": -0.02, "high": 0.004})
    'open'
    """
    low, high = difference["low"], difference["high"]
    if low is None or high is None:
        return "open"
    if low >= -tolerance:
        return "holds"
    return "fails" if high <= -tolerance else "open"


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as text, in percent and points."""
    width = max(len("rule"), *(len(row["rule"]) for row in rows))
    lines = [
        f"{'':{width}}  {'':15}"
        + "".join(f"  {people + ' top-1':>16}  {'to clean, points':29}" for people in POPULATIONS)
        + "  held-out perplexity, factor"
    ]
    for row in rows:
        line = f"{row['rule']:{width}}  {row['attack']:15}"
        for people in POPULATIONS:
            recall = _number(row["recall"][people]["value"], ".2f", 100)
            line += f"  {recall:>14} %  {_points(row, people):29}"
        line += f"  {_number(row['perplexity']['held_out']['value'], '.1f'):>19}"
        if "perplexity_factor" in row:
            line += f", {_number(row['perplexity_factor']['held_out']['value'], '.2f')}"
        lines.append(line)
    return "\n".join(
        [
            *lines,
            "",
            f"Within {100 * TOLERANCE:g} point of the clean run: holds (all of the 95 % jackknife "
            "interval over people), fails (none of it), open.",
        ]
    )


def _points(row: Mapping[str, Any], people: str) -> str:
    if "difference" not in row:
        return ""
    value, low, high = (
        _number(row["difference"][people][key], "+.2f", 100) for key in ("value", "low", "high")
    )
    return f"{value} [{low}, {high}] {row['verdict'][people]}"


def _number(value: float | None, form: str, factor: float = 1.0) -> str:
    """A number that may not exist or be infinite, which JSON does not have."""
    return "-" if value is None else format(factor * value, form)
