r"""Measures the cost of each command until it prints something useful.

    make demo                                                        # its store and run are read
    python -m tff_keyboard_lab.benchmarks.start.start --out=start.json
    python -m tff_keyboard_lab.benchmarks.start.start --out=before.json \
        --checkout=/tmp/before   # another commit's

The cost is CPU seconds, memory, and CPU seconds until the first line. Useful output is a pattern of
the table below, or else the end. CPU time is user and system time of the command and all processes
that it started, which other load disturbs less than wall time. Memory is the largest sum of their
resident sets, read twenty times a second. Commands write to a terminal, as live progress needs one,
and are interrupted after their useful output.
"""

import argparse
import contextlib
import json
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

from tff_keyboard_lab.tools import process_tree

ROOT = pathlib.Path(__file__).parents[3]
DEMO = ["--config=configs/demo.toml"]
EXPORTS = ["compare", "models/messages/keyboard.tflite", "models/messages/keyboard.ngram"]
ROUND = r"round +\d+"
_TICK = os.sysconf("SC_CLK_TCK")

# Command -> words, and the pattern of useful output; "" means the end of the command.
COMMANDS: dict[str, tuple[Sequence[str], str]] = {
    "train": (["train", *DEMO, "--workdir={new}"], ROUND),
    "train-server": (["train-server", "--like=runs/demo", "--workdir={new}"], ROUND),
    "study --plan": (["study", "{study}", "--workdir={new}", "--plan"], ""),
    "attack": (["attack", *DEMO, "--workdir={new}"], ROUND),
    "audit-tail": (["audit-tail", *DEMO, "--workdir={new}", "--excluded-client=0"], ROUND),
    "evaluate": (["evaluate", "runs/demo"], ""),
    "compare": (["compare", "runs/demo", "unigram", "--out={new}"], ""),
    "compare exports": ([*EXPORTS, "--text={text}", "--out={new}"], ""),
    "audit": (["audit", "runs/demo", "--phrases={phrases}", "--random=100"], ""),
    "export": (
        ["export", "runs/demo", "--out={new}.tflite", "--allow-little-text", "--allow-loss"],
        "",
    ),
    "personalise": (["personalise", "{model}", "--text={people}"], ""),
    "play": (["play", "{model}"], r"http://"),
    "play nothing.tflite": (["play", "nothing.tflite"], ""),
    "verify": (["verify", "{model}"], ""),
    "doctor": (["doctor"], ""),
    "prepare": (["prepare", "{people}", "--out={new}"], ""),
    "advise": (["advise", "data/demo"], ""),
    "merge-vocabulary": (["merge-vocabulary", "data/demo", "data/demo", "--out={new}"], ""),
    "report": (["report", "runs/demo", "--out={new}"], ""),
    "privacy": (["privacy", "{ledger}"], ""),
    "events": (["events", "{logs}"], ""),
}
STUDY = """
question = "Does it start?"
control = "demo"
seeds = [1]
[[arms]]
name = "demo"
label = "demo"
config = "{}/configs/demo.toml"
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkout", type=pathlib.Path, default=ROOT)
    parser.add_argument(
        "--only", default=",".join(COMMANDS), help="commands to measure, separated by commas"
    )
    parser.add_argument("--out", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a script's background jobs ignore SIGINT
    checkout = arguments.checkout.resolve()
    costs = {}
    with tempfile.TemporaryDirectory() as name:
        places = inputs(checkout, pathlib.Path(name))
        for number, command in enumerate(arguments.only.split(",")):
            words, useful = COMMANDS[command]
            places["new"] = f"{name}/new{number}"
            costs[command] = row = cost(checkout, [w.format(**places) for w in words], useful)
            print(f"{command:20}", json.dumps(row), flush=True)
            arguments.out.write_text(json.dumps(costs, indent=1) + "\n")


def inputs(checkout: pathlib.Path, folder: pathlib.Path) -> dict[str, str]:
    """Prepares what the commands read, and returns the paths for the {fields} of `COMMANDS`.

    Text, phrases and a study are written to `folder`. An export and an event log of the demo are
    made in `checkout`/runs, unless they are already there, also from an earlier version.
    """
    model, logs = checkout / "runs" / "demo.tflite", checkout / "runs" / "demo_logs"
    lines = [
        (model, f"export runs/demo --out={model} --trainable --ngram=200kB --allow-little-text"),
        (logs, f"events --replay={model} --store=data/demo --max-clients=2 --out={logs}"),
    ]
    for output, line in lines:
        if not output.exists():
            subprocess.run([*_tasks(checkout), *line.split()], cwd=checkout, check=True)
    (folder / "study.toml").write_text(STUDY.format(checkout))
    days = [f"see you {day}\nwhat are you doing {day}\n" for day in ("today", "tomorrow")]
    (folder / "text").write_text("".join(days) * 20)
    people = [f"{name}\tsee you {n} today\n" for name in "abcdefghijkl" for n in range(30)]
    (folder / "people.tsv").write_text("".join(people))
    (folder / "phrases").write_text("see you today\n")
    (ledger,) = checkout.glob("tests/golden/*/finished")
    return {
        "study": f"{folder}/study.toml",
        "text": f"{folder}/text",
        "people": f"{folder}/people.tsv",
        "phrases": f"{folder}/phrases",
        "model": str(model),
        "logs": str(next(logs.glob("*.jsonl"))),
        "ledger": str(ledger),
    }


def cost(checkout: pathlib.Path, words: Sequence[str], useful: str) -> dict[str, Any]:
    """Returns the cost of a command until it has printed `useful`.

    Returns:
      `cpu_seconds`, CPU seconds until the first output, `megabytes`, and `seconds` of wall time.
    """
    ours, theirs = pty.openpty()
    began = time.monotonic()
    process = subprocess.Popen(
        [*_tasks(checkout), *words],
        cwd=checkout,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    said, first, max_megabytes, cpu = "", 0.0, 0.0, 0.0
    try:
        for text in _output(ours):
            said += text
            tree = [process.pid, *process_tree.descendants(process.pid)]
            max_megabytes = max(max_megabytes, sum(map(process_tree.resident_megabytes, tree)))
            cpu = max(cpu, sum(map(_with_ended_children, tree)))
            first = first or (cpu if text else 0.0)
            if useful and re.search(useful, said):
                break
        seconds = time.monotonic() - began
        if not useful:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            cpu = usage.ru_utime + usage.ru_stime
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
            process.wait()
        os.close(ours)
    return {
        "cpu_seconds": round(cpu, 2),
        "megabytes": round(max_megabytes),
        "cpu_seconds_until_first_line": round(first, 2),
        "seconds": round(seconds, 1),
        "exit_code": process.returncode,
        "last_line": said.strip().splitlines()[-1][:100] if said.strip() else "",
    }


def _output(descriptor: int) -> Iterator[str]:
    """Yields the output of a terminal; "" if there was none for a twentieth of a second."""
    while True:
        ready, _, _ = select.select([descriptor], [], [], 0.05)
        try:
            data = os.read(descriptor, 65536) if ready else b""
        except OSError:  # all processes that wrote to it have ended
            return
        yield data.decode(errors="replace")


def _with_ended_children(pid: int) -> float:
    """Returns CPU seconds of a process and of its children for which it has waited."""
    try:
        facts = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, facts[11:15])) / _TICK


def _tasks(checkout: pathlib.Path) -> list[str]:
    return [str(checkout / ".venv" / "bin" / "python"), "-m", "tasks"]


if __name__ == "__main__":
    main()
