"""The name of each file of a run is written in one place of the code."""

import ast
import pathlib

from tff_keyboard.storage import names

ROOT = pathlib.Path(__file__).parents[2]
ALL = {value for name, value in vars(names).items() if name.isupper() and name[0] != "_"}
FILES = {name for name in ALL if "." in name}
FOLDERS = ALL - FILES
SIGNS = ["evaluation_{", *FILES, *(f'/ "{folder}"' for folder in FOLDERS)]


def strings_of(tree):
    """Returns string constants without a blank, which excludes docstrings and messages."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value:
            yield node.lineno, node.value


def folders_joined(tree):
    """Returns the names in `path / "name"`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            right = node.right
            if isinstance(right, ast.Constant) and isinstance(right.value, str):
                yield node.lineno, right.value


def test_each_name_is_written_once():
    actual = []
    for package in ("tff_keyboard", "tflite_export", "tasks"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if path.relative_to(ROOT) == pathlib.Path("tff_keyboard/storage/names.py"):
                continue
            text = path.read_text()
            if not any(name in text for name in SIGNS):  # parsing takes a hundred times as long
                continue
            tree = ast.parse(text)
            here = [(line, text) for line, text in strings_of(tree) if text.split("/")[-1] in FILES]
            here += [(line, text) for line, text in folders_joined(tree) if text in FOLDERS]
            here += [
                (line, text) for line, text in strings_of(tree) if text.startswith("evaluation_{")
            ]
            actual += [f"{path.relative_to(ROOT)}:{line} {text}" for line, text in here]
    assert not actual


def test_finds_names():
    assert {"config.toml", "metrics.jsonl", "privacy_ledger.jsonl", "weights.npz"} <= FILES
    assert {"model", "checkpoints"} <= FOLDERS
