"""Files stay small enough to be read in one go, and tasks stay wiring."""

import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parent.parent
MOST_LINES = 400
MOST_LINES_OF_DATA = 7_000  # JSON and CSV, shipped models left out
MOST_LINES_OF_A_TASK, MEAN_LINES_OF_TASKS = 155, 87  # 20 files had 3,423 lines once
# Longer ones, with what excuses them.
LONGER = {
    "tflite_export/graphs/flatbuffer_builder.py": 440,  # one operator of the schema after another
}


def lines(path):
    return len(path.read_text().splitlines())


def files(*packages):
    return sorted(path for package in packages for path in (ROOT / package).rglob("*.py"))


@pytest.mark.parametrize(
    "package", ["tff_keyboard", "tflite_export", "tasks", "benchmarks", "tools"]
)
def test_no_file_is_long(package):
    found = {str(path.relative_to(ROOT)): lines(path) for path in files(package)}
    assert not {
        name: count for name, count in found.items() if count > LONGER.get(name, MOST_LINES)
    }


def test_tasks_are_wiring():
    found = {path.name: lines(path) for path in files("tasks")}
    assert max(found.values()) <= MOST_LINES_OF_A_TASK, found
    assert sum(found.values()) <= MEAN_LINES_OF_TASKS * len(found)


def test_data_is_what_pages_show():
    """What is of one epoch, one person or one seed stays with the run it is of."""
    command = ["git", "-C", str(ROOT), "ls-files", "*.json", "*.csv", ":!models"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    found = {name: lines(ROOT / name) for name in names if (ROOT / name).exists()}
    assert sum(found.values()) <= MOST_LINES_OF_DATA, found
