"""Imports run one way: parsed from the source, checked against one table."""

import ast
import collections
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parent.parent

# Top-level package -> the packages of ours it may import.
MAY_IMPORT = {
    "tff_keyboard": {"tff_keyboard"},
    "tflite_export": {"tff_keyboard", "tflite_export"},
    "tasks": {"tff_keyboard", "tflite_export", "tasks"},
    "tools": {"tff_keyboard", "tools"},
    "benchmarks": {"tff_keyboard", "tflite_export", "tasks", "tools", "benchmarks"},
}

# Part of the library -> the parts it may import. `storage`, `config` and `data.vocabulary` are
# leaves that every part may know; what is listed is what it may know besides.
LIBRARY = {
    "storage": set(),
    "command_line": set(),
    "config": set(),
    "data": {"packs", "privacy"},
    "models": set(),
    "metrics": {"models", "data"},
    "privacy": {"models", "storage"},
    "evaluation": {"data", "hybrid", "metrics", "models", "storage"},
    "aggregation": set(),
    "learning": {"models", "metrics", "evaluation", "aggregation", "data", "packs"},
    "algorithms": {
        *("models", "metrics", "evaluation", "aggregation", "data", "learning", "privacy"),
        *("program", "packs"),
    },
    "baselines": {"metrics", "data"},
    "hybrid": {"baselines", "evaluation", "metrics", "data"},
    "report": {"events", "evaluation", "metrics", "data", "privacy"},
    "program": set(),
    "processes": set(),
    "training": {
        *("algorithms", "learning", "models", "metrics", "evaluation", "data", "privacy"),
        *("program", "storage"),
    },
    "packs": set(),
    "events": {"evaluation", "metrics"},
    "study": {
        *("evaluation", "hybrid", "report", "metrics", "models", "data", "privacy", "program"),
        "storage",
    },
}
LEAVES = {"storage", "config", "processes", "progress", "quiet", "text_table"}

NO_TFF = [
    "storage",
    "processes",
    "command_line",
    "config",
    "data",
    "models",
    "metrics",
    "evaluation",
    "baselines",
    "hybrid",
    "report",
    "privacy",
    "study",
    "events",
]
OURS = set(MAY_IMPORT)


def imported_modules(path):
    """Every module a file imports, at any depth of nesting: `a.b` for `from a.b import c`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(path, node)
            yield module
            for alias in node.names:
                yield f"{module}.{alias.name}"


def _absolute(path, node):
    """`tasks.options` for `from .options import ...` in tasks/."""
    folders = path.relative_to(ROOT).parent.parts
    above = folders[: len(folders) - node.level + 1] if node.level else ()
    return ".".join([*above, *([node.module] if node.module else [])])


def files(package):
    return sorted((ROOT / package).rglob("*.py"))


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_packages_import_one_way(package):
    for path in files(package):
        for module in imported_modules(path):
            top = module.split(".")[0]
            if top in OURS:
                assert top in MAY_IMPORT[package], f"{path.relative_to(ROOT)} imports {module}"


@pytest.mark.parametrize("part", LIBRARY)
def test_library_parts_import_one_way(part):
    for path in files(f"tff_keyboard/{part}"):
        for module in imported_modules(path):
            words = module.split(".")
            if words[0] != "tff_keyboard" or len(words) < 2:
                continue
            other = words[1]
            if (
                other == part
                or other in LEAVES
                or words[:3] == ["tff_keyboard", "data", "vocabulary"]
            ):
                continue
            assert other in LIBRARY[part], f"{path.relative_to(ROOT)} imports {module}"


@pytest.mark.parametrize("part", NO_TFF)
def test_parts_below_learning_know_no_tff(part):
    for path in files(f"tff_keyboard/{part}"):
        for module in imported_modules(path):
            assert not module.startswith("tensorflow_federated"), path.relative_to(ROOT)


# Parts of tasks/ that are not tasks: what tasks are launched with, and what opens any model.
NO_TASKS = {"__init__", "__main__", "cli", "demo", "options", "predictors"}


def task_modules():
    return {path.stem for path in files("tasks")} - NO_TASKS


@pytest.mark.parametrize(
    "package", ["tasks", "benchmarks", "tools", "tff_keyboard", "tflite_export"]
)
def test_no_task_is_imported(package):
    """What two need lies in the library; only `__main__` opens a task, by its name."""
    for path in files(package):
        for module in imported_modules(path):
            words = module.split(".")
            if words[0] == "tasks" and len(words) > 1:
                where = path.relative_to(ROOT)
                assert words[1] not in task_modules(), f"{where} imports {module}"


def test_tasks_name_each_other_without_their_package():
    """Installed, the folder has another name (setup.py)."""
    for path in files("tasks"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and not node.level:
                assert node.module.split(".")[0] != "tasks", path.relative_to(ROOT)
            elif isinstance(node, ast.Import):
                assert not {alias.name.split(".")[0] for alias in node.names} & {"tasks"}


def test_export_knows_no_tff():
    for path in files("tflite_export"):
        for module in imported_modules(path):
            assert not module.startswith("tensorflow_federated"), path.relative_to(ROOT)
            assert not module.startswith("tff_keyboard.learning"), path.relative_to(ROOT)
            assert not module.startswith("tff_keyboard.program"), path.relative_to(ROOT)


def test_files_of_tests_have_names_of_their_own():
    # They are imported by their last name alone: of two alike, pytest collects one.
    names = collections.Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert not [name for name, count in names.items() if count > 1]
