"""Trains several configs with several seeds and tabulates them against a control.

python -m benchmarks.table configs/aggregation/sms_*.toml --control=sms_fedavg_epsilon \\
    --workdir=runs/rules --out=docs/results/sms_rules.json --seeds=1,2,3 --rounds=50

Every run is a run directory that resumes, and a finished one is skipped: interrupted, run the
same command again. All configs train with the first seed before any does with the second. After
each run --out is written, and the table between the lines `<!-- table: NAME -->` and
`<!-- end: NAME -->` of --markdown, where NAME is the stem of --out. Evaluations are of all
validation and all held-out people.

Intervals are 95 % jackknives over people, paired where they are of differences to the control;
with several seeds a person is left out of all of them at once. So they tell how far the result is
one of these people. How far it is one of these seeds the column "by seed" tells: lowest to highest
difference to the control with the same seed.
"""

import argparse
import datetime
import json
import math
import os
import pathlib
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tff_keyboard import config as config_lib
from tff_keyboard.evaluation import run_evaluation
from tff_keyboard.evaluation.comparison import pooled_difference
from tff_keyboard.evaluation.result import Evaluation, pooled_sums
from tff_keyboard.evaluation.sums import metric_interval
from tff_keyboard.privacy import ledger, statement
from tff_keyboard.storage import files, metrics_rows, names
from tff_keyboard.storage.run_directory import RunDirectory

POPULATIONS = ("validation", "held_out")
METRICS = ("recall_at_1_no_eos", "recall_at_3_no_eos", "perplexity")
RECALL = "recall_at_1_no_eos"

Evaluations = dict[str, Evaluation]  # by population


def run_configs(
    paths: Sequence[pathlib.Path], overrides: Sequence[str], seed: int
) -> dict[str, config_lib.RunConfig]:
    """Name (stem of the file) -> config with its overrides, for one seed."""
    return {path.stem: config_lib.load(path, [*overrides, f"train.seed={seed}"]) for path in paths}


def is_finished(run: pathlib.Path, config: config_lib.RunConfig) -> bool:
    """Whether `run` holds all rounds and the model of this very config."""
    try:
        before = config_lib.to_dict(config_lib.load_of_run(run / names.CONFIG))
        done = [row["round"] for row in RunDirectory(run).rows()]
        run_evaluation.weights_digest(run)
    except (config_lib.ConfigError, OSError, ValueError):
        return False
    wanted = config_lib.to_dict(config)
    for values in (before, wanted):
        values.pop("execution")  # never changes results but for `sub_rounds`, which train checks
    return before == wanted and bool(done) and done[-1] == config.train.rounds


def train(path: pathlib.Path, run: pathlib.Path, overrides: Sequence[str]) -> int:
    """Runs the train task in a process of its own, log beside the run; returns its exit code."""
    command = [sys.executable, "-m", "tasks", "train", f"--config={path}", f"--workdir={run}"]
    command += [f"--set={override}" for override in overrides]
    files.make_directory(run.parent)
    with run.with_suffix(".log").open("ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            return process.wait()
        finally:
            if process.poll() is None:  # we are being interrupted: let it end as it does by itself
                process.terminate()
                process.wait()


def train_unless_finished(
    path: pathlib.Path, run: pathlib.Path, config: config_lib.RunConfig, overrides: Sequence[str]
) -> tuple[bool, int]:
    """Whether it was finished before, and the exit code of the train task otherwise."""
    if is_finished(run, config):
        return True, 0
    code = train(path, run, overrides)
    if code not in (0, 130, 143):
        print(f"{run.name} failed with status {code}; see {run.with_suffix('.log')}.")
    return False, code


def describe_run(run: pathlib.Path) -> dict[str, Any]:
    """What a run sent and, if it claims privacy, spent."""
    rows = RunDirectory(run).rows()
    sent = metrics_rows.total(rows, "uploaded_bytes")
    kept = metrics_rows.total(rows, "bytes_not_uploaded")
    facts: dict[str, Any] = {
        "rounds": len(rows),
        "clients_per_round": rows[-1]["clients"],
        "tokens": metrics_rows.total(rows, "tokens"),
        "upload_bytes_per_round": (sent - kept) / len(rows),
        "rejected_rounds": int(metrics_rows.total(rows, "rejected")),
    }
    effective = [
        value
        for row in rows
        for name, value in row.items()
        if name.endswith("/effective_clients") and isinstance(value, int | float)
    ]
    if effective:
        facts["effective_clients"] = math.fsum(effective) / len(effective)
    adaptive = [v for row in rows for name, v in row.items() if name.endswith("/adaptive")]
    if adaptive:  # FedMed: the share of rounds that mediation left to the adaptive rule
        facts["adaptive_rounds"] = math.fsum(map(float, adaptive)) / len(adaptive)
    if (run / names.LEDGER).exists():
        header, rounds = ledger.read_ledger(run / names.LEDGER)
        guarantee = statement.guarantee_of(header, len(rounds))
        facts["privacy"] = {
            "noise_multiplier": header.noise_multiplier,
            "clip_norm": header.clip_norm,
            "epsilon": guarantee.epsilon if math.isfinite(guarantee.epsilon) else None,
            "delta": guarantee.delta,
            "adjacency": guarantee.adjacency,
        }
    return facts


def summarise(
    runs: Mapping[str, Mapping[int, Evaluations]],
    facts: Mapping[str, Mapping[str, Any]],
    control: str,
) -> list[dict[str, Any]]:
    """A row for each config that has a run.

    Args:
      runs: Config -> seed -> population -> evaluation.
      facts: Config -> `describe_run` of one of its runs.
      control: The config that differences are to.

    Returns:
      For each config `metrics` (population -> metric -> value, low, high; means over seeds, of a
      perplexity the geometric one), `seeds` (the same of each seed) and, but for the control,
      `differences` and `differences_of_seeds` on the seeds that both have: in points of a ratio,
      as a factor of a perplexity.
    """
    rows = []
    for name, by_seed in runs.items():
        if not by_seed:
            continue
        row: dict[str, Any] = {
            "config": name,
            **facts.get(name, {}),
            "metrics": _metrics(list(by_seed.values())),
            "seeds": {str(seed): _metrics([results]) for seed, results in by_seed.items()},
        }
        both = [seed for seed in by_seed if seed in runs.get(control, {})]
        if name != control and both:
            row["differences"] = _differences(runs, name, control, both)
            row["differences_of_seeds"] = {
                str(seed): _differences(runs, name, control, [seed]) for seed in both
            }
        rows.append(row)
    return rows


def _metrics(evaluations: Sequence[Evaluations]) -> dict[str, Any]:
    pooled = {
        people: pooled_sums([results[people] for results in evaluations]) for people in POPULATIONS
    }
    return {
        people: {metric: metric_interval(sums, metric).to_json() for metric in METRICS}
        for people, sums in pooled.items()
    }


def _differences(runs, name: str, control: str, seeds: Sequence[int]) -> dict[str, Any]:
    return {
        people: {
            metric: pooled_difference(
                [runs[name][seed][people] for seed in seeds],
                [runs[control][seed][people] for seed in seeds],
                metric,
            ).to_json()
            for metric in METRICS
        }
        for people in POPULATIONS
    }


def markdown(rows: Sequence[Mapping[str, Any]], control: str) -> str:
    """The table, the control first."""
    ordered = sorted(rows, key=lambda row: row["config"] != control)
    lines = [
        "| config | seeds | validation top-1, % | to control, points | held-out top-1, % "
        "| to control, points | by seed | held-out perplexity | factor of control | MB a round |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in ordered:
        cells = [f"`{row['config']}`", str(len(row["seeds"]))]
        for people in POPULATIONS:
            cells.append(_percent(row["metrics"][people][RECALL]))
            cells.append(_points(row, people))
        cells.append(_seed_range(row))
        cells.append(_interval(row["metrics"]["held_out"]["perplexity"], "{:.1f}"))
        factor = row.get("differences", {}).get("held_out", {}).get("perplexity")
        cells.append(_interval(factor, "{:.3f}") if factor else "control")
        cells.append(f"{row['upload_bytes_per_round'] / 1e6:.1f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _interval(values: Mapping[str, float], form: str) -> str:
    value, low, high = (
        "-" if values[key] is None else form.format(values[key]) for key in ("value", "low", "high")
    )
    return f"{value} [{low}, {high}]"


def _percent(values: Mapping[str, float]) -> str:
    return _interval({key: 100 * value for key, value in values.items()}, "{:.2f}")


def _points(row: Mapping[str, Any], people: str) -> str:
    if "differences" not in row:
        return "control"
    values = row["differences"][people][RECALL]
    return _interval({key: 100 * value for key, value in values.items()}, "{:+.2f}")


def _seed_range(row: Mapping[str, Any]) -> str:
    differences = row.get("differences_of_seeds", {}).values()
    values = [100 * each["held_out"][RECALL]["value"] for each in differences]
    return f"{min(values):+.2f} .. {max(values):+.2f}" if len(values) > 1 else "-"


def replace_section(text: str, name: str, table: str) -> str:
    """`text` with `table` between the two markers of `name`.

    Raises:
      ValueError: The markers are not there, once each.

    >>> replace_section("a\\n<!-- table: t -->\\nold\\n<!-- end: t -->\\nb", "t", "new")
    'a\\n<!-- table: t -->\\n\\nnew\\n\\n<!-- end: t -->\\nb'
    """
    begin, end = f"<!-- table: {name} -->", f"<!-- end: {name} -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if len(pattern.findall(text)) != 1:
        raise ValueError(f"The Markdown file must have {begin} and {end}, once each.")
    return pattern.sub(lambda match: f"{begin}\n\n{table}\n\n{end}", text)


def _commit() -> str | None:
    result = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return result.stdout.strip() or None


def write(
    flags: argparse.Namespace,
    facts: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    table: str,
) -> None:
    """The JSON file, and the table in Markdown if asked for; `facts` are how rows were made."""
    report = {
        "date": datetime.date.today().isoformat(),
        "commit": _commit(),
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs",
        "control": flags.control,
        **facts,
        "intervals": "95 % jackknife over people, paired in differences",
        "rows": rows,
    }
    files.make_directory(flags.out.parent)
    files.write_atomically(flags.out, [json.dumps(report, indent=1).encode(), b"\n"])
    if flags.markdown:
        text = flags.markdown.read_text(encoding="utf-8")
        text = replace_section(text, flags.out.stem, table)
        files.write_atomically(flags.markdown, [text.encode()])


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Flags of the command line; a wrong one ends the program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("configs", nargs="+", type=pathlib.Path, help="TOML files")
    parser.add_argument("--control", required=True, help="stem of the config to compare with")
    parser.add_argument("--workdir", type=pathlib.Path, required=True, help="folder of the runs")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="JSON file")
    parser.add_argument("--markdown", type=pathlib.Path, help="file with markers for the table")
    parser.add_argument("--seeds", default="1", help="such as 1,2,3 (default: 1)")
    parser.add_argument("--rounds", type=int, help="in place of `train.rounds`")
    parser.add_argument("--set", action="append", default=[], help="section.key=value; repeatable")
    flags = parser.parse_args(arguments)
    names = [path.stem for path in flags.configs]
    if flags.control not in names:
        parser.error(f"--control must be one of {', '.join(names)}; got {flags.control!r}")
    if len(set(names)) < len(names):
        parser.error("two configs have one name, and so would their runs")
    if not re.fullmatch(r"\d+(,\d+)*", flags.seeds):
        parser.error(f"--seeds must read like 1,2,3; got {flags.seeds!r}")
    if flags.markdown:
        try:
            replace_section(flags.markdown.read_text(encoding="utf-8"), flags.out.stem, "")
        except (OSError, ValueError) as error:
            parser.error(f"--markdown={flags.markdown}: {error}")
    flags.seeds = list(dict.fromkeys(map(int, flags.seeds.split(","))))
    flags.configs.sort(key=lambda path: path.stem != flags.control)  # the control first
    return flags


def main(arguments: Sequence[str] | None = None) -> int:
    flags = parse(arguments)
    overrides = list(flags.set)
    if flags.rounds is not None:
        overrides.append(f"train.rounds={flags.rounds}")
    try:
        configs = {seed: run_configs(flags.configs, overrides, seed) for seed in flags.seeds}
    except config_lib.ConfigError as error:
        sys.exit(f"error: {error}")
    jobs = [(seed, path) for seed in flags.seeds for path in flags.configs]
    runs: dict[str, dict[int, Evaluations]] = {path.stem: {} for path in flags.configs}
    facts: dict[str, dict[str, Any]] = {}
    seconds: list[float] = []  # of runs that were not skipped
    failed = []
    for number, (seed, path) in enumerate(jobs, start=1):
        run = flags.workdir / f"{path.stem}_seed{seed}"
        began = time.monotonic()
        skipped, code = train_unless_finished(
            path, run, configs[seed][path.stem], [*overrides, f"train.seed={seed}"]
        )
        if code in (130, 143):
            return code
        if code:
            failed.append(run.name)
            continue
        runs[path.stem][seed] = {
            people: run_evaluation.kept_evaluation(run, people) for people in POPULATIONS
        }
        facts.setdefault(path.stem, describe_run(run))
        rows = summarise(runs, facts, flags.control)
        write(flags, {"overrides": overrides}, rows, markdown(rows, flags.control))
        if not skipped:
            seconds.append(time.monotonic() - began)
        left = sum(seconds) / max(len(seconds), 1) * (len(jobs) - number)
        when = f"about {left / 60:.0f} minutes left" if seconds else "done before"
        print(f"{number}/{len(jobs)} {run.name}: {when}", flush=True)
    print(markdown(summarise(runs, facts, flags.control), flags.control))
    return 1 if failed else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
