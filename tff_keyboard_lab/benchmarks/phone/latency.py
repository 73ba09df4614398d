r"""Measures time and memory of exported models on this machine, in the installed runtimes.

    python tff_keyboard_lab/benchmarks/phone/latency.py keyboard.tflite [more.tflite]
    python tff_keyboard_lab/benchmarks/phone/latency.py keyboard.tflite --also-python \
        litert-venv/bin/python

It uses one thread. There are three times, each with the Python call around the interpreter:

  step      signature `step`: one word read, the three best returned
  context   signature `predict` on 12 tokens: the first key after a cursor jump
  key       `KeyboardPredictor.strip_for` while sentences are typed letter by letter: tokenising,
            reading a finished word, filtering by prefix

Each process opens one model, so that memory is that model's own: growth of the resident set from
before the model is opened until after all calls (the interpreter's own code is loaded before).
Models take turns in short processes, so that other load affects all of them; percentiles are over
all calls of all rounds. `ai-edge-litert` needs an environment of its own:
`python3 -m venv litert-venv && litert-venv/bin/pip install ai-edge-litert numpy`.
"""

import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))  # the other environment has not installed this project

CONTEXT_TOKENS = 12
SENTENCES = (
    "are you coming home for dinner tonight",
    "i will call you when i get there",
    "can we meet tomorrow morning instead of today",
    "thank you so much for the lovely gift",
    "don't forget to bring the keys please",
)
GOALS = {"p50_ms": 0.15, "p99_ms": 5.0, "rss_growth_mb": 10.0}  # for a key


def measure(model: pathlib.Path, runtime: str, calls: int, xnnpack: bool) -> dict:
    """Returns milliseconds of every call, by kind, and memory, in this process."""
    import numpy as np

    from tflite_export.format import signatures
    from tflite_export.runtime import interpreters
    from tflite_export.runtime.keyboard_predictor import KeyboardPredictor

    interpreters.import_quietly(runtime)
    random = np.random.default_rng(0)  # imports parts of NumPy that a phone does without
    before = resident_bytes()
    predictor = KeyboardPredictor(model, runtime=runtime, xnnpack=xnnpack)
    step, predict = predictor.signature(signatures.STEP), predictor.signature(signatures.PREDICT)
    sizes = predictor.manifest.model.state_sizes
    ids = random.integers(4, len(predictor.vocabulary), [calls, CONTEXT_TOKENS], np.int32)
    state = [np.zeros([1, size], np.float32) for size in (sizes.c, sizes.h)]

    step_times = []
    for token in ids[:, :1]:
        start = time.perf_counter()
        out = step(token=token, c=state[0], h=state[1])
        step_times.append(1000 * (time.perf_counter() - start))
        state = [out["new_c"], out["new_h"]]

    context_times = []
    for tokens in ids[: calls // 4]:
        start = time.perf_counter()
        predict(tokens=tokens[np.newaxis])
        context_times.append(1000 * (time.perf_counter() - start))

    key_times: list[float] = []
    while len(key_times) < calls:
        for sentence in SENTENCES:
            for end in range(len(sentence) + 1):
                key_times.append(1000 * predictor.strip_for(sentence[:end]).latency_seconds)
    return {
        "step": step_times,
        "context": context_times,
        "key": key_times,
        "rss_growth_mb": (resident_bytes() - before) / 1e6,
    }


def resident_bytes() -> int:
    """Returns the resident set of this process, in bytes."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def compare(
    models: list[pathlib.Path], pythons: list[str], rounds: int, calls: int, xnnpack: bool
) -> list[dict]:
    """Returns a row of percentiles for each model and runtime. They take turns."""
    collected: dict[tuple[str, str], list[dict]] = {}
    for _ in range(rounds):
        for path in models:
            for python in pythons:
                result = _in_process(python, path, calls, xnnpack)
                collected.setdefault((str(path), result["runtime"]), []).append(result)
    rows = []
    for (model, runtime), results in collected.items():
        row = {
            "model": model,
            "runtime": runtime,
            "rss_growth_mb": max(result["rss_growth_mb"] for result in results),
        }
        for kind in ("step", "context", "key"):
            times = sorted(value for result in results for value in result[kind])
            for percent in (50, 95, 99):
                row[f"{kind}_p{percent}_ms"] = times[len(times) * percent // 100]
        rows.append(row)
    return rows


def table(rows: list[dict]) -> str:
    """Returns the rows as text: milliseconds, p50 / p95 / p99."""
    lines = [
        f"{'model':28} {'runtime':20} {'step':>22} {'context of 12':>22} {'key':>22} {'RSS MB':>7}"
    ]
    for row in rows:
        times = [
            " / ".join(f"{row[f'{kind}_p{percent}_ms']:.3f}" for percent in (50, 95, 99))
            for kind in ("step", "context", "key")
        ]
        name = pathlib.Path(row["model"]).name
        lines.append(
            f"{name:28} {row['runtime']:20} {times[0]:>22} {times[1]:>22} {times[2]:>22} "
            f"{row['rss_growth_mb']:7.1f}"
        )
    return "\n".join(lines)


def _in_process(python: str, model: pathlib.Path, calls: int, xnnpack: bool) -> dict:
    command = [python, __file__, str(model), "--one", "--calls", str(calls)]
    command += ["--xnnpack"] if xnnpack else []
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    if child.returncode:
        sys.exit(f"error: {' '.join(command)} failed:\n{child.stderr[-2000:]}")
    return json.loads(child.stdout.splitlines()[-1])


def _one(model: pathlib.Path, calls: int, xnnpack: bool) -> dict:
    """Measures one model in this process; `--one` prints the result for the parent process.

    Returns the dict of `measure`: `step`, `context` and `key`, lists of milliseconds per call; and
    `rss_growth_mb`. Adds `runtime`: package and version of the first runtime installed in this
    Python.
    """
    import importlib.metadata

    from tflite_export.runtime import interpreters

    runtime = interpreters.installed_runtimes()[0]
    package = {"litert": "ai-edge-litert", "tensorflow": "tensorflow"}[runtime]
    version = importlib.metadata.version(package)
    return measure(model, runtime, calls, xnnpack) | {"runtime": f"{package} {version}"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--also-python", help="another Python whose runtime is measured, too")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--calls", type=int, default=1000, help="number of calls of `step` in a round"
    )
    parser.add_argument("--xnnpack", action="store_true", help="use XNNPACK")
    parser.add_argument("--json", type=pathlib.Path, help="write the rows to this JSON file, too")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(_one(options.models[0], options.calls, options.xnnpack)))
        return
    pythons = [sys.executable, *([options.also_python] if options.also_python else [])]
    rows = compare(options.models, pythons, options.rounds, options.calls, options.xnnpack)
    print(f"{platform.machine()}, {os.cpu_count()} cores, one thread; goals for a key: {GOALS}")
    print(table(rows))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
