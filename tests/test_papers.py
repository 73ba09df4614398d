"""docs/papers/README.md names code and tests that exist."""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PAGE = (ROOT / "docs/papers/README.md").read_text(encoding="utf-8")
CODE = sorted(set(re.findall(r"`((?:tff_keyboard|tflite_export|tasks)/[\w/]+\.py):(\w+)`", PAGE)))
TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)))


def names_in(path):
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


@pytest.mark.parametrize("path, name", CODE)
def test_code_is_there(path, name):
    assert name in names_in(path)


@pytest.mark.parametrize("path, name", TESTS)
def test_tests_are_there(path, name):
    assert not name or name in names_in(path)
    assert (ROOT / path).exists()


def test_no_row_is_left_without_a_test():
    rows = [
        line for line in PAGE.splitlines() if line.startswith("| ") and "code | test" not in line
    ]
    assert len(rows) >= 25
    for row in rows:
        assert "`tests/" in row, row
