"""CPU seconds of each test file, with those of all processes that its tests start.

A run prints the dearest files and the sum. Told `--cpu-budget=N`, it fails where a file takes more
than N times its budget: seconds depend on the machine and on what runs beside it, so that
`make test` asks for four times; `make test BUDGET=1` is for a quiet machine. What a file costs by
importing is not its own: it counts as `START`, once a process.
"""

import collections
import os
import pathlib

import pytest

SECONDS = 5.0  # a file
# Files that may take more, with what excuses them.
DEARER = {
    "test_federated.py": (30.0, "the one training with TFF that is quick"),
    "test_battery.py": (15.0, "compiles two aggregations, alone and merged"),
    "test_docstrings.py": (20.0, "imports every module of ours"),
    "test_train_central.py": (15.0, "trains three rounds of the twin"),
    "test_prepare.py": (15.0, "prepares stores of every kind"),
    "test_export.py": (15.0, "writes whole exports"),
    "test_device_trainer.py": (15.0, "exports a model, and trains in processes"),
    "test_play.py": (15.0, "drives a browser"),
    "test_libcifg.py": (15.0, "compiles a library"),
    "test_play_languages.py": (10.0, "drives a browser"),
}
SHOWN = 10
START = "start and imports"
_TICKS = os.sysconf("SC_CLK_TCK")


def spent(pid=None):
    """CPU seconds so far of a process, its children that ended, and all that live below it."""
    ticks, children = {}, collections.defaultdict(list)
    for directory in pathlib.Path("/proc").iterdir():
        if directory.name.isdigit():
            try:
                fields = (directory / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it ended meanwhile
            process = int(directory.name)
            children[int(fields[1])].append(process)
            ticks[process] = sum(map(int, fields[11:15]))
    total, todo = 0, [os.getpid() if pid is None else pid]
    while todo:
        process = todo.pop()
        total += ticks.get(process, 0)
        todo += children[process]
    return total / _TICKS


def budget(name):
    """CPU seconds that a quick run has for the file of this name."""
    return DEARER[name][0] if name in DEARER else SECONDS


def too_dear(seconds, factor):
    """Lines about files that took more than `factor` budgets; `seconds` by name."""
    return [
        f"{name}: {found:.1f} CPU seconds, {budget(name):.0f} are its budget, times {factor:g}"
        for name, found in sorted(seconds.items())
        if name != START and found > factor * budget(name)
    ]


class CpuSeconds:
    """A plugin that counts where tests run and reports where the session began (pytest-xdist)."""

    def __init__(self, config):
        self._config = config
        self._factor = config.getoption("cpu_budget")
        self._seconds = collections.Counter()
        self._counted = 0.0

    def _count(self, name):
        now = spent()
        self._seconds[name] += now - self._counted
        self._counted = now

    def pytest_runtestloop(self):
        if not self._config.pluginmanager.hasplugin("dsession"):  # whose workers count themselves
            self._count(START)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item, nextitem):
        result = yield
        if nextitem is None or nextitem.path != item.path:
            self._count(item.path.name if item.path.name.startswith("test_") else "doctests")
        return result

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        self._seconds.update(getattr(node, "workeroutput", {}).get("cpu_seconds", {}))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session):
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput["cpu_seconds"] = dict(self._seconds)
        elif self._factor and too_dear(self._seconds, self._factor):
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter):
        terminalreporter.section("CPU seconds")
        for name, seconds in self._seconds.most_common(SHOWN):
            terminalreporter.line(f"{seconds:8.1f}  {name}")
        terminalreporter.line(f"{sum(self._seconds.values()):8.1f}  in all")
        for line in too_dear(self._seconds, self._factor) if self._factor else ():
            terminalreporter.line(f"error: {line}", red=True)
