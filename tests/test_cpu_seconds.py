"""The account of CPU seconds, and the table of witnesses."""

import ast
import pathlib
import subprocess
import sys

import pytest

from tests.support import cpu_seconds, quick_witnesses

FILES = {path.name: path for path in pathlib.Path(__file__).parent.rglob("test_*.py")}
BURN = "import time\nwhile time.process_time() < 0.4: pass\nprint(0, flush=True); input()"


def test_children_count_while_they_run_and_when_they_have_ended():
    before = cpu_seconds.spent()
    command = [sys.executable, "-S", "-c", BURN]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        assert cpu_seconds.spent() - before > 0.35
        child.communicate(b"\n")
    assert cpu_seconds.spent() - before > 0.35


def test_a_file_may_take_its_budget_times_the_factor():
    found = {"test_a.py": 9.0, "test_battery.py": 30.0, cpu_seconds.START: 99.0}
    assert cpu_seconds.too_dear(found, 2) == []
    assert [line.split(":")[0] for line in cpu_seconds.too_dear(found, 1)] == [
        "test_a.py",
        "test_battery.py",
    ]


@pytest.mark.parametrize("table", [cpu_seconds.DEARER, quick_witnesses.WITNESSES])
def test_files_of_the_tables_are_there(table):
    assert not [name for name in table if name not in FILES]


@pytest.mark.parametrize("name", quick_witnesses.WITNESSES)
def test_witnesses_are_tests_or_cases(name):
    source = FILES[name].read_text()
    functions = {
        node.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)
    }
    for witness in quick_witnesses.WITNESSES[name]:
        assert f"test_{witness}" in functions or f'"{witness}"' in source, witness
