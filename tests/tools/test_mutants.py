"""Mutants: every change is one change, and what no test owes anything is left alone."""

import ast

import coverage
import pytest

from tools import mutants, mutation, named_mutants


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
        "tff_keyboard/evaluation/metrics/a.py:2 x: y": "not reached",
    }
    total = mutation.score(results, mutation.read_equivalent(path))
    assert total["data"] == {"killed": 1, "mutants": 1, "score": 1.0}
    assert total["all"] == {"killed": 1, "mutants": 2, "score": 0.5}


@pytest.mark.parametrize("named", named_mutants.NAMED, ids=lambda named: named.name)
def test_named_mutants_follow_the_code(named):
    changed = named.mutant().source
    compile(changed, named.path, "exec")
    path, function = named.test.partition("[")[0].split("::")
    assert f"def {function}(" in (mutation.ROOT / path).read_text()


def test_a_mutant_of_a_line_that_is_gone_is_refused():
    gone = named_mutants.NamedMutant("x", "tools/mutants.py", "no such line", "", "")
    with pytest.raises(ValueError, match="is there 0 times"):
        gone.mutant()


@pytest.mark.parametrize("branches", [False, True])
def test_the_tests_of_a_line_come_quickest_first(tmp_path, branches):
    data = coverage.CoverageData(str(tmp_path / "map"))
    nodes = ["tests/data/test_a.py::test_slow[x]", "tests/data/test_a.py::test_quick"]
    for node in nodes:
        data.set_context(f"{node}|run")
        file = "/elsewhere/tff_keyboard/data/batches.py"
        if branches:
            data.add_arcs({file: [(-1, 7), (7, 8), (8, -1)]})
        else:
            data.add_lines({file: [7, 8]})
    data.write()
    (tmp_path / "map.xml").write_text(
        "<testsuites><testsuite>"
        '<testcase classname="tests.data.test_a" name="test_slow[x]" time="2"/>'
        '<testcase classname="tests.data.test_a" name="test_quick" time="0.5"/>'
        '<testcase classname="tests.data.test_a" name="test_another" time="0.1"/>'
        "</testsuite></testsuites>"
    )
    found = mutation.TestMap(tmp_path / "map")
    assert found.tests("tff_keyboard/data/batches.py", 8) == nodes[::-1]
    assert found.tests("tff_keyboard/data/batches.py", 9) == []


def test_the_tests_of_a_file_bear_its_name():
    assert mutation.own_tests("tff_keyboard/data/batches.py") == ["tests/data/test_batches.py"]
    assert mutation.own_tests("tff_keyboard/data/no_such_file.py") == []


def test_or_name_it():
    found = mutation.naming_tests("tff_keyboard/data/store/store_writer.py")
    assert 0 < len(found) <= 3
    assert all("store_writer" in (mutation.ROOT / path).read_text() for path in found)
    assert mutation.naming_tests(f"tff_keyboard/data/{4711 * 4711}.py") == []
