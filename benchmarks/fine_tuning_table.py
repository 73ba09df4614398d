"""Fine-tunes a general model by several configs and judges each on both populations.

python -m benchmarks.fine_tuning_table configs/finetune/sms_*.toml --control=sms_retraining \\
    --general=runs/finetune/general --workdir=runs/finetune --out=docs/results/fine_tuning_sms.json

The columns are those of Popov et al. 2018, Tables 1 and 2: perplexity and keystroke savings (KSS,
tap free) on general text and on users' text, and the average perplexity; beside them what was sent.
Differences are paired, to the general model and to --control; intervals are 95 % jackknives over
people (general text: over its clients).

Every run is a run directory that resumes, and a finished one is skipped: interrupted, run the same
command again. After each run --out is written, and the table between its markers in --markdown (as
`benchmarks.table`). Held-out clients are judged, and of the general ones --general-messages each.
"""

import argparse
import pathlib
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks import table as table_lib
from tff_keyboard import config as config_lib
from tff_keyboard.evaluation import communication
from tff_keyboard.storage import metrics_rows
from tff_keyboard.storage.run_directory import RunDirectory

METRICS = ("perplexity", "kss", "recall_at_1_no_eos", "recall_at_3_no_eos")
POPULATIONS = ("general", "user")


def typed_texts(config: config_lib.RunConfig, general_messages: int) -> dict[str, Any]:
    """The held-out text of both populations, and the vocabulary of both."""
    from tff_keyboard.data.store.client_store import ClientStore
    from tff_keyboard.evaluation.typed_text import TypedText
    from tff_keyboard.learning.validation import open_general_store

    users = ClientStore(config.data.store)
    general = open_general_store(config, users)
    if general is None:
        sys.exit("error: the configs name no `fine_tuning.general_store` to judge on.")
    texts = {}
    for name, store, most in (("general", general, general_messages), ("user", users, None)):
        people = store.client_ids("held_out")
        messages = tuple(store.words("held_out", person)[:most] for person in people)
        texts[name] = TypedText(name, tuple(people), messages)
    return texts


def judge(
    path: pathlib.Path, texts: Mapping[str, Any], max_length: int
) -> dict[str, dict[str, np.ndarray]]:
    """Population -> sums per person, kept beside the weights they belong to."""
    from tff_keyboard.evaluation import run_evaluation
    from tff_keyboard.evaluation.result import ModelFacts
    from tff_keyboard.metrics.keras_predictor import KerasPredictor
    from tff_keyboard.models.saved_model import load_model

    digest = run_evaluation.weights_digest(path)
    predictor = None
    found = {}
    for name, text in texts.items():
        kept = RunDirectory(path).evaluation_path(f"{name}_{text.num_words}", digest)
        if kept.exists():
            evaluation = run_evaluation.read_evaluation(kept)
        else:
            predictor = predictor or KerasPredictor(*load_model(path))
            evaluation = run_evaluation.evaluate_named(
                predictor, ModelFacts(name=path.name), text, max_length=max_length
            )
            run_evaluation.write_evaluation(kept, evaluation)
        found[name] = dict(evaluation.sums)
    return found


def summarise(
    judged: Mapping[str, Mapping[str, Any]], facts: Mapping[str, Any], general: str, control: str
) -> list[dict[str, Any]]:
    """A row for each model: metrics, differences to the general model and to the control."""
    from tff_keyboard.evaluation.sums import metric_difference, metric_interval

    rows = []
    for name, sums in judged.items():
        row: dict[str, Any] = {"config": name, **facts.get(name, {}), "metrics": {}}
        for people in POPULATIONS:
            row["metrics"][people] = {
                metric: metric_interval(sums[people], metric).to_json() for metric in METRICS
            }
        perplexities = [row["metrics"][people]["perplexity"]["value"] for people in POPULATIONS]
        row["average_perplexity"] = sum(perplexities) / 2
        for other, key in ((general, "to_general"), (control, "to_control")):
            if other != name and other in judged:
                row[key] = {
                    people: {
                        metric: metric_difference(
                            sums[people], judged[other][people], metric
                        ).to_json()
                        for metric in METRICS
                    }
                    for people in POPULATIONS
                }
        rows.append(row)
    return rows


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """The paper's columns, then what changed against the general model."""
    lines = [
        "| | general PPL | general KSS, % | user PPL | user KSS, % | average PPL "
        "| general KSS, points gained | user KSS, points gained | general PPL over the control's "
        "| GB sent |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [f"`{row['config']}`"]
        for people in POPULATIONS:
            cells.append(_interval(row["metrics"][people]["perplexity"], "{:.1f}", 1))
            cells.append(_interval(row["metrics"][people]["kss"], "{:.2f}", 100))
        cells.append(f"{row['average_perplexity']:.1f}")
        for people in POPULATIONS:
            gain = row.get("to_general", {}).get(people)
            cells.append(_interval(gain["kss"], "{:+.2f}", 100) if gain else "")
        ratio = row.get("to_control", {}).get("general")
        cells.append(_interval(ratio["perplexity"], "{:.3f}", 1) if ratio else "")
        cells.append(f"{row['total_bytes'] / 1e9:.2f}" if "total_bytes" in row else "")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _interval(values: Mapping[str, float], form: str, factor: float) -> str:
    value, low, high = (
        "-" if values[key] is None else form.format(factor * values[key])
        for key in ("value", "low", "high")
    )
    return f"{value} [{low}, {high}]"


def describe_run(run: pathlib.Path) -> dict[str, Any]:
    """What it sent and how long it trained."""
    rows = RunDirectory(run).rows()
    account = communication.account(rows, parameters=communication.num_parameters(run))
    return {
        "rounds": account.rounds,
        "tokens": metrics_rows.total(rows, "tokens"),
        "rehearsal_bytes": account.rehearsal_bytes,
        "uploads_per_round": account.uploads_per_round,
        "total_bytes": account.total_bytes,
    }


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Flags of the command line; a wrong one ends the program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("configs", nargs="+", type=pathlib.Path, help="TOML files")
    parser.add_argument("--general", type=pathlib.Path, required=True, help="run of train-server")
    parser.add_argument("--control", required=True, help="stem of the config to compare with")
    parser.add_argument("--workdir", type=pathlib.Path, required=True, help="folder of the runs")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="JSON file")
    parser.add_argument("--markdown", type=pathlib.Path, help="file with markers for the table")
    parser.add_argument("--general-messages", type=int, default=400, help="of each general client")
    parser.add_argument("--set", action="append", default=[], help="section.key=value; repeatable")
    flags = parser.parse_args(arguments)
    if flags.control not in [path.stem for path in flags.configs]:
        parser.error(f"--control must be the name of a config; got {flags.control!r}")
    if flags.general_messages < 1:
        parser.error(f"--general-messages must be >= 1; got {flags.general_messages}")
    if flags.markdown:
        try:
            text = flags.markdown.read_text(encoding="utf-8")
            table_lib.replace_section(text, flags.out.stem, "")
        except (OSError, ValueError) as error:
            parser.error(f"--markdown={flags.markdown}: {error}")
    flags.configs.sort(key=lambda path: path.stem != flags.control)  # the control first
    return flags


def main(arguments: Sequence[str] | None = None) -> int:
    flags = parse(arguments)
    overrides = [*flags.set, f"model.initial_model={flags.general}"]
    try:
        configs = {path.stem: config_lib.load(path, overrides) for path in flags.configs}
    except config_lib.ConfigError as error:
        sys.exit(f"error: {error}")
    some = configs[flags.control]
    texts = typed_texts(some, flags.general_messages)
    judged = {"general model": judge(flags.general, texts, some.data.max_length)}
    facts: dict[str, Any] = {}
    failed = False
    for number, path in enumerate(flags.configs, start=1):
        run = flags.workdir / path.stem
        _, code = table_lib.train_unless_finished(path, run, configs[path.stem], overrides)
        if code in (130, 143):
            return code
        if code:
            failed = True
            continue
        judged[path.stem] = judge(run, texts, some.data.max_length)
        facts[path.stem] = describe_run(run)
        rows = summarise(judged, facts, "general model", flags.control)
        extra = {"overrides": flags.set, "general_messages": flags.general_messages}
        table_lib.write(flags, extra, rows, markdown(rows))
        print(f"{number}/{len(flags.configs)} {run.name}", flush=True)
    print(markdown(summarise(judged, facts, "general model", flags.control)))
    return 1 if failed else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
