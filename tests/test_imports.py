"""Imports run one way: parsed from the source, checked against one table and in every folder."""

import ast
import collections
import functools
import graphlib
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PRODUCT = ("tff_keyboard", "tflite_export", "tasks")
OURS = (*PRODUCT, "benchmarks", "tools")

# The house, floor by floor: a package -> the packages of ours it may import, all of them above it
# in this table, so that no arrow runs up. `storage` has no line: everybody may know it.
FLOORS = {
    "storage": set(),
    "wire": set(),
    "packs": set(),
    "config": set(),
    "host": set(),
    "privacy": {"config"},
    "program": {"config", "host"},
    "data": {"config", "host", "packs", "privacy"},
    "models": {"data"},
    "predictors": {"data", "models"},
    "evaluation": {"config", "data", "host", "models", "predictors"},
    "report": {"data", "evaluation", "host", "predictors", "privacy"},
    "federated": {
        "config",
        "data",
        "evaluation",
        "models",
        "packs",
        "predictors",
        "privacy",
        "program",
        "wire",
    },
    "round_server": {"wire"},
    "study": {
        "config",
        "data",
        "evaluation",
        "host",
        "models",
        "predictors",
        "privacy",
        "program",
        "report",
    },
    "training": {
        "config",
        "data",
        "evaluation",
        "federated",
        "host",
        "models",
        "packs",
        "predictors",
        "privacy",
        "program",
        "round_server",
        "wire",
    },
    "audits": {"config", "data", "models", "privacy", "training"},
    "attacks": {"config", "data", "evaluation", "federated", "models", "predictors", "training"},
    "tflite_export": {
        "config",
        "data",
        "evaluation",
        "host",
        "models",
        "predictors",
        "privacy",
        "report",
        "wire",
    },
    "tasks": {
        "attacks",
        "audits",
        "config",
        "data",
        "evaluation",
        "federated",
        "host",
        "models",
        "predictors",
        "privacy",
        "program",
        "report",
        "round_server",
        "study",
        "training",
        "tflite_export",
        "wire",
    },
}
WITHOUT_TFF = set(FLOORS) - {"federated", "attacks", "training", "program", "packs", "tasks"}

# What Python 3.10 does not have; `storage.toml` and typing_extensions stand in.
NEWER = re.compile(
    r"^import tomllib|\bdatetime\.UTC\b|\bStrEnum\b|\bExceptionGroup\b|\bexcept\*|"
    r"^from typing import .*\b(Self|Never|NotRequired|Required|Unpack|assert_never)\b",
    re.MULTILINE,
)

# Parts of tasks/ that are not tasks: what tasks are launched with, and what opens any model.
NO_TASKS = {"__init__", "__main__", "cli", "demo", "options", "predictors"}


@functools.cache
def modules():
    """Dotted name -> path of every module of ours."""
    found = {}
    for top in OURS:
        for path in sorted((ROOT / top).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = path
    return found


@functools.cache
def imported(name):
    """Every module that a module of ours imports, at any depth of nesting; whole names."""
    path = modules()[name]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parent = node.module or ""
            if node.level:
                words = package.split(".")
                above = words[: len(words) - node.level + 1]
                parent = ".".join([*above, *([parent] if parent else [])])
            for alias in node.names:
                whole = f"{parent}.{alias.name}"
                found.add(whole if whole in modules() else parent)
    return frozenset(found)


def package_of(name):
    """Of a dotted name: its line in `FLOORS`, if it has one."""
    words = name.split(".")
    if words[0] == "tff_keyboard":
        return words[1] if len(words) > 1 else None
    return words[0]


@pytest.mark.parametrize("package", FLOORS)
def test_a_package_imports_what_its_line_allows(package):
    for name in modules():
        if package_of(name) == package:
            for other in map(package_of, imported(name)):
                known = other not in FLOORS or other in FLOORS[package] | {package, "storage"}
                assert known, f"{name} imports {other}"


def test_no_arrow_runs_up():
    floors = list(FLOORS)
    for package, allowed in FLOORS.items():
        above = [other for other in allowed if floors.index(other) > floors.index(package)]
        assert not above, f"{package} stands below {above}"


def test_every_package_has_a_line():
    assert {package_of(name) for name in modules() if name.startswith("tff_keyboard.")} <= set(
        FLOORS
    )


def folders():
    return sorted({"", *(name.rpartition(".")[0] for name in modules())})


@pytest.mark.parametrize("folder", folders())
def test_what_stands_beside_each_other_is_no_circle(folder):
    """Modules and folders of one folder, each folder with all that is in it."""
    beside = collections.defaultdict(set)
    depth = len(folder.split(".")) if folder else 0
    start = f"{folder}." if folder else ""

    def child(name):
        return ".".join(name.split(".")[: depth + 1])

    for name in modules():
        if name.startswith(start):
            for other in imported(name) & modules().keys():
                if other.startswith(start) and child(other) != child(name):
                    beside[child(name)].add(child(other))
    graphlib.TopologicalSorter(beside).prepare()  # raises CycleError


@pytest.mark.parametrize("package", sorted(WITHOUT_TFF))
def test_parts_that_know_no_tff(package):
    for name in modules():
        if package_of(name) == package:
            found = [other for other in imported(name) if "tensorflow_federated" in other]
            assert not found, name


@pytest.mark.parametrize("package", sorted(WITHOUT_TFF | {"tasks"}))
def test_what_runs_without_tff_runs_on_python_3_10(package):
    for name, path in modules().items():
        if package_of(name) == package:
            source = path.read_text()
            ast.parse(source, feature_version=(3, 10))
            assert not NEWER.search(source), name


def test_benchmarks_and_tools_are_imported_by_nothing_of_the_product():
    for name in modules():
        if name.split(".")[0] in PRODUCT:
            assert not [o for o in imported(name) if o.split(".")[0] in ("benchmarks", "tools")]


def test_no_task_is_imported():
    """What two need lies in the library; only `__main__` opens a task, by its name."""
    tasks = {
        name
        for name in modules()
        if name.startswith("tasks.") and name.rpartition(".")[2] not in NO_TASKS
    }
    for name in modules():
        if name.split(".")[0] != "tools":
            assert not imported(name) & tasks, name


def test_tasks_name_each_other_without_their_package():
    """Installed, the folder has another name (setup.py)."""
    for name, path in modules().items():
        if package_of(name) == "tasks":
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom) and not node.level:
                    assert node.module.split(".")[0] != "tasks", name
                elif isinstance(node, ast.Import):
                    assert not {alias.name.split(".")[0] for alias in node.names} & {"tasks"}


def test_files_of_tests_have_names_of_their_own():
    # They are imported by their last name alone: of two alike, pytest collects one.
    names = collections.Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert not [name for name, count in names.items() if count > 1]
