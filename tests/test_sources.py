"""Sources that run without TFF on Python 3.10, and under the name `tff_keyboard_tasks`."""

import ast
import collections
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parent.parent
ONLY_WITH_TFF = ("aggregators", "algorithms", "training", "execution")

# What Python 3.10 does not have; `storage.toml` and typing_extensions stand in.
NEWER = re.compile(
    r"^import tomllib|\bdatetime\.UTC\b|\bStrEnum\b|\bExceptionGroup\b|\bexcept\*|"
    r"^from typing import .*\b(Self|Never|NotRequired|Required|Unpack|assert_never)\b",
    re.MULTILINE,
)


def sources(folder):
    return sorted(p for p in (ROOT / folder).rglob("*.py") if "tests" not in p.parts)


@pytest.mark.parametrize(
    "folder",
    [
        *sorted(
            str(path.relative_to(ROOT))
            for path in (ROOT / "tff_keyboard").iterdir()
            if path.is_dir() and path.name not in ONLY_WITH_TFF
        ),
        "tff_keyboard_app",
        "tff_keyboard_fleet/device",
        "tff_keyboard_fleet/wire",
        "tflite_export",
        "tasks",
    ],
)
def test_packages_that_need_no_tff_run_on_python_3_10(folder):
    for path in sources(folder):
        source = path.read_text()
        ast.parse(source, feature_version=(3, 10))
        assert not NEWER.search(source), path


def test_tasks_name_each_other_without_their_package():
    """Installed, the folder has another name (setup.py)."""
    for path in sources("tasks"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and not node.level:
                assert node.module.split(".")[0] != "tasks", path
            elif isinstance(node, ast.Import):
                assert not {alias.name.split(".")[0] for alias in node.names} & {"tasks"}


def test_file_names_of_tests_are_unique():
    # pytest imports a test file by its last name alone: of two alike it collects one.
    listed = subprocess.run(
        ["git", "ls-files", "*test_*.py"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()
    names = collections.Counter(pathlib.Path(path).name for path in listed)
    assert not [name for name, count in names.items() if count > 1]
