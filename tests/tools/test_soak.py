"""What a soak reads from pytest, and what it calls green."""

import pytest

from tools import soak

GREEN = "....\n3167 passed, 12 skipped, 4 warnings in 539.52s (0:08:59)\n"
RED = (
    "FAILED tests/a.py::test_b[1] - assert 1 == 2\nERROR tests/c.py::test_d\n"
    "1 failed, 7 passed, 1 error in 3.20s\n"
)


@pytest.mark.parametrize(
    "text, expected",
    [
        (GREEN, (3167, 0, ())),
        (RED, (7, 2, ("tests/a.py::test_b[1]", "tests/c.py::test_d"))),
        ("", (0, 0, ())),
    ],
)
def test_reads_pytest(text, expected):
    assert soak.read_output(text) == expected


def test_nothing_passed_is_not_green():
    assert soak.Run(1, False, 3, 0, 1.0, 0.0).is_green
    assert not soak.Run(1, False, 3, 1, 1.0, 0.0).is_green
    assert not soak.Run(1, False, 0, 0, 1.0, 0.0).is_green


def test_goes_on_where_a_soak_of_this_commit_ended(tmp_path, monkeypatch):
    path = tmp_path / "soak.json"
    runs = [soak.Run(5, True, 3, 1, 61.5, 1.25, ("a.py::b",)), soak.Run(6, False, 4, 0, 60.0, 0.0)]
    assert soak.earlier_runs(path) == soak.earlier_runs(None) == []
    soak.write(path, runs)
    assert soak.earlier_runs(path) == runs
    monkeypatch.setattr(soak, "commit", lambda: "another")
    assert soak.earlier_runs(path) == []


@pytest.mark.slow
def test_runs_pytest_and_tells_what_failed(tmp_path):
    (tmp_path / "test_one.py").write_text("def test_a(): pass\ndef test_b(): assert 0\n")
    run = soak.run_tests([str(tmp_path), "-p", "no:cacheprovider"], busy=True)
    assert (run.passed, run.failed, run.busy) == (1, 1, True)
    assert "test_b" in run.failures[0]
    shown = soak.table([run])
    assert shown.splitlines()[1].split()[2] == "2"
    assert run.taken > 0
    assert "0 of 1 runs were green" in shown
