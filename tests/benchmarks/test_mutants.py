"""Mutants: every change is one change, and what no test owes anything is left alone."""

import ast

import pytest

from benchmarks import mutants, mutation


def found(source):
    return {mutant.what: mutant for mutant in mutants.mutants("tff_keyboard/a.py", source)}


@pytest.mark.parametrize(
    "source, what, changed",
    [
        ("y = a < b", "Lt -> LtE", "y = a <= b"),
        ("y = a == b", "Eq -> NotEq", "y = a != b"),
        ("y = a + b", "Add -> Sub", "y = a - b"),
        ("y += b", "Add -> Sub", "y -= b"),
        ("y = a and b", "And -> Or", "y = a or b"),
        ("y = not a", "not x -> not not x", "y = not not a"),
        ("y = -a", "-x -> +x", "y = +a"),
        ("y = True", "True -> False", "y = False"),
        ("y = 0.5", "0.5 -> 1.5", "y = 1.5"),
        ("y = b if a else c", "condition inverted", "y = b if not a else c"),
        ("f(a)", "call left out", "None"),
        ("y = [a for a in b if c]", "filter left out", "y = [a for a in b]"),
    ],
)
def test_one_change_each(source, what, changed):
    assert found(source)[what].source == changed


def test_a_return_gives_nothing():
    mutant = found("def f():\n    return a")["returns None"]
    assert (mutant.line, mutant.source) == (2, "def f():\n    return None")


@pytest.mark.parametrize(
    "source",
    [
        '"""Adds 1 + 1."""',
        "raise ValueError(f'{a + 1} is not {b}')",
        "def f(a: Literal[1]) -> Literal[2]: ...",
        "assert a < b",
        "if TYPE_CHECKING: import a",
    ],
    ids=["docstring", "error text", "annotation", "assertion", "type checking"],
)
def test_what_no_test_owes_anything_is_spared(source):
    assert all(mutant.what == "condition inverted" for mutant in found(source).values())


def test_every_mutant_differs_from_its_original_and_is_python():
    source = "def f(a, b):\n    if a < b and not a:\n        g(a + 1)\n    return [b, -a]"
    everything = mutants.mutants("tff_keyboard/a.py", source)
    assert len(everything) >= 8
    for mutant in everything:
        assert ast.unparse(ast.parse(mutant.source)) != ast.unparse(ast.parse(source))
    assert len({mutant.name for mutant in everything}) == len(everything)


def test_equivalent_mutants_do_not_count(tmp_path):
    path = tmp_path / "equivalent.txt"
    path.write_text("# names\ntff_keyboard/data/a.py:1 x: y  # the same for every input\n")
    results = {
        "tff_keyboard/data/a.py:1 x: y": "alive",
        "tff_keyboard/data/a.py:2 x: y": "killed",
        "tff_keyboard/metrics/a.py:2 x: y": "not reached",
    }
    total = mutation.score(results, mutation.read_equivalent(path))
    assert total["data"] == {"killed": 1, "mutants": 1, "score": 1.0}
    assert total["all"] == {"killed": 1, "mutants": 2, "score": 0.5}
