"""Would the tests notice? Runs the tests that cover a line against mutants of that line.

python -m tools.mutation --out=build/mutation.json \\
    --parts tff_keyboard/federated/aggregation tff_keyboard/privacy --sample=200 --seed=1

First the tests run once under coverage with a context a test, which tells the tests of every line
(`--map` keeps that for the next time). Then each mutant (`tools/mutants.py`) runs the tests of
its line, the quickest first, and those of its file, until one fails: it is killed. A mutant whose
tests all pass is alive; one on a line no test reaches is alive, too. Each mutant runs in a forked
child that has TensorFlow imported already. Interrupted and started again it goes on: the file of
results is its state.

With `--named` there is no first run: a mutant runs the test files that are named after its file, or
else those that name it. That takes minutes where the map takes an hour, and finds fewer: what it
calls alive may be killed by a test elsewhere.

Mutants that change nothing a test could see are named in `tools/mutants_equivalent.txt`,
one a line with the reason; they do not count. The exit code is 5 when the score is below `--least`.
"""

import argparse
import collections
import importlib.abc
import importlib.util
import json
import os
import pathlib
import random
import re
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tools import mutants as mutants_lib

ROOT = pathlib.Path(__file__).resolve().parent.parent
EQUIVALENT = ROOT / "tools/mutants_equivalent.txt"
PARTS = ("aggregation", "privacy", "metrics", "evaluation", "data")
MOST_TESTS = 25  # of a line, quickest first; the rest are slow ways to the same line
SECONDS = 300  # of CPU; a mutant that loops for ever is noticed by that
PATIENCE = 10  # wall time over CPU time, on a busy machine


def measure(map_path: pathlib.Path, tests: Sequence[str]) -> None:
    """Runs the tests once, each a context of coverage, and keeps how long each took."""
    settings = map_path.with_suffix(".coveragerc")
    settings.write_text(f"[run]\ndata_file = {map_path}\n")
    durations = map_path.with_suffix(".xml")
    # Not coverage's own `dynamic_context`: for it all tests of hypothesis are one.
    command = [sys.executable, "-m", "pytest", "--cov=tff_keyboard", "--cov-context=test"]
    command += [f"--cov-config={settings}", "--cov-report=", f"--junitxml={durations}"]
    command += ["-m", "not slow", "-p", "no:cacheprovider", *tests]
    subprocess.run(command, cwd=ROOT, check=True)


class TestMap:
    """Which tests run a line, from coverage's database, and how long they take."""

    def __init__(self, map_path: pathlib.Path):
        from xml.etree import ElementTree

        self._seconds: dict[str, float] = {}
        for case in ElementTree.parse(map_path.with_suffix(".xml")).iter("testcase"):
            file = case.get("classname", "").replace(".", "/") + ".py"
            self._seconds[f"{file}::{case.get('name', '')}"] = float(case.get("time", 0))
        self._lines: dict[tuple[str, int], set[str]] = collections.defaultdict(set)
        with sqlite3.connect(map_path) as database:
            for path, context, lines in _lines_by_test(database):
                relative = "tff_keyboard" + path.rpartition("/tff_keyboard")[2]  # of any checkout
                for line in lines:
                    self._lines[relative, line].add(context.partition("|")[0])

    def tests(self, path: str, line: int) -> list[str]:
        """Node ids of the tests that run `line` of `path`, quickest first."""
        found = self._lines.get((path, line), set()) & self._seconds.keys()
        return sorted(found, key=lambda node: (self._seconds[node], node))[:MOST_TESTS]


def own_tests(path: str) -> list[str]:
    """The test files named after a file of the library.

    They run last, whatever the map says: what TensorFlow traces runs once a process, and is then
    the first test's alone.
    """
    found = (ROOT / "tests").rglob(f"test_{pathlib.Path(path).stem}.py")
    return sorted(str(file.relative_to(ROOT)) for file in found)


def naming_tests(path: str) -> list[str]:
    """The test files in which the module's name stands, the shortest three."""
    file = pathlib.Path(path)
    word = re.compile(rf"\b{file.parent.name if file.stem == '__init__' else file.stem}\b")
    found = [test for test in (ROOT / "tests").rglob("test_*.py") if word.search(test.read_text())]
    found.sort(key=lambda test: (test.stat().st_size, test))
    return [str(test.relative_to(ROOT)) for test in found[:3]]


def _lines_by_test(database: sqlite3.Connection) -> Iterator[tuple[str, str, Iterable[int]]]:
    """`(file, test, lines)`, measured with or without branches."""
    import coverage.numbits

    of_test = (
        "join file on file.id = {0}.file_id join context on context.id = {0}.context_id "
        "where context.context != ''"
    )
    columns = "select file.path, context.context"
    for path, test, bits in database.execute(
        f"{columns}, numbits from line_bits {of_test.format('line_bits')}"
    ):
        yield path, test, coverage.numbits.numbits_to_nums(bits)
    for path, test, line in database.execute(
        f"{columns}, abs(tono) from arc {of_test.format('arc')}"
    ):
        yield path, test, [line]


class _MutatedModule(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from changed source."""

    def __init__(self, mutant: mutants_lib.Mutant):
        self._name = mutant.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        self._mutant = mutant

    def find_spec(self, fullname, path=None, target=None):
        del path, target
        if fullname != self._name:
            return None
        origin = str(ROOT / self._mutant.path)
        return importlib.util.spec_from_file_location(fullname, origin, loader=self)

    def create_module(self, spec):
        del spec

    def exec_module(self, module) -> None:
        code = compile(self._mutant.source, str(ROOT / self._mutant.path), "exec")
        exec(code, module.__dict__)


def is_killed(mutant: mutants_lib.Mutant, tests: Sequence[str]) -> bool:
    """Whether one of the tests fails, in a forked child."""
    child = os.fork()
    if not child:
        os.setpgid(0, 0)
        code = 3
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        try:
            sink = os.open(os.devnull, os.O_WRONLY)
            os.dup2(sink, 1)
            os.dup2(sink, 2)
            sys.meta_path.insert(0, _MutatedModule(mutant))
            import pytest

            code = int(
                pytest.main(["-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", *tests])
            )
        finally:
            os._exit(code)
    deadline = time.monotonic() + PATIENCE * SECONDS
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            _end_group(child)
            return os.waitstatus_to_exitcode(status) != 0
        time.sleep(0.05)
    _end_group(child)
    os.waitpid(child, 0)
    return True


def _end_group(leader: int) -> None:
    """Ends the child and what it started; TFF workers end with it (`host/children.py`)."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return


def read_equivalent(path: pathlib.Path) -> set[str]:
    """Names of mutants that change nothing; a line is `name  # reason`."""
    if not path.exists():
        return set()
    lines = path.read_text(encoding="utf-8").splitlines()
    return {line.partition("  # ")[0] for line in lines if line and not line.startswith("#")}


def score(results: Mapping[str, str], equivalent: Iterable[str]) -> dict[str, Any]:
    """Killed over all but the equivalent, in all and by part of the library."""
    known = set(equivalent)
    counts: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0])
    for name, outcome in results.items():
        if name in known:
            continue
        for part in ("all", name.split("/")[1]):
            counts[part][0] += outcome == "killed"
            counts[part][1] += 1
    return {
        part: {"killed": killed, "mutants": total, "score": round(killed / total, 4)}
        for part, (killed, total) in sorted(counts.items())
    }


def sources(parts: Sequence[str]) -> list[pathlib.Path]:
    return sorted(path for part in parts for path in (ROOT / part).rglob("*.py"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--parts", nargs="+", default=[f"tff_keyboard/{part}" for part in PARTS])
    parser.add_argument("--sample", type=int, default=200, help="mutants drawn; 0 means all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--named", action="store_true", help="no map: tests by their names")
    parser.add_argument("--map", type=pathlib.Path, default=ROOT / "build/mutation.coverage")
    parser.add_argument("--tests", nargs="*", default=["tests"], help="what pytest is given")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/mutation.json")
    parser.add_argument("--least", type=float, default=0.0, help="score below which it fails")
    arguments = parser.parse_args()
    arguments.map.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    if not arguments.named and not arguments.map.exists():
        measure(arguments.map, arguments.tests)
    test_map = None if arguments.named else TestMap(arguments.map)
    every = [
        mutant
        for path in sources(arguments.parts)
        for mutant in mutants_lib.mutants(str(path.relative_to(ROOT)), path.read_text())
    ]
    chosen = list(every)
    random.Random(arguments.seed).shuffle(chosen)
    chosen = chosen[: arguments.sample or None]
    results: dict[str, str] = {}
    if arguments.out.exists():
        results = json.loads(arguments.out.read_text())["mutants"]
    from tff_keyboard.host import quiet

    quiet.import_tensorflow_federated()
    for number, mutant in enumerate(chosen, 1):
        if mutant.name not in results:
            tests = [*own_tests(mutant.path)]
            if test_map is not None:
                tests = [*test_map.tests(mutant.path, mutant.line), *tests]
            elif not tests:
                tests = naming_tests(mutant.path)
            outcome = "not reached"
            if tests:
                outcome = "killed" if is_killed(mutant, tests) else "alive"
            results[mutant.name] = outcome
            print(f"{number}/{len(chosen)} {outcome:11} {mutant.name}", flush=True)
            report = {
                "found": len(every),
                "sample": len(chosen),
                "seed": arguments.seed,
                "score": score(results, read_equivalent(EQUIVALENT)),
                "mutants": results,
            }
            partial = arguments.out.with_suffix(".partial")
            partial.write_text(json.dumps(report, indent=1) + "\n")
            partial.replace(arguments.out)
    total = score(results, read_equivalent(EQUIVALENT))
    print(json.dumps(total, indent=1))
    if total and total["all"]["score"] < arguments.least:
        sys.exit(5)


if __name__ == "__main__":
    main()
