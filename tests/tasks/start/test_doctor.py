"""The doctor goes on to the next check after one that failed, and ends with an exit code."""

import pytest
import tensorflow_federated as tff

from tasks import cli
from tasks.start import doctor
from tff_keyboard.program import machine_checks


@pytest.fixture(autouse=True)
def restore_context():
    before = tff.framework.get_context_stack().current
    yield
    tff.framework.set_default_context(before)  # that of a check has no worker any more


def test_a_sound_machine(capsys, tmp_path, monkeypatch):
    monkeypatch.delenv(machine_checks.DATA_VARIABLE, raising=False)
    monkeypatch.setattr(machine_checks, "MIN_DISK_GB", 0.0)
    monkeypatch.setattr(machine_checks, "MIN_MEMORY_GB", 0.0)
    doctor.run(doctor.Options(workdir=tmp_path / "new" / "runs"))
    output = capsys.readouterr().out
    assert "started and answered in" in output
    assert "0.87.0" in output
    assert "FAIL" not in output
    assert output.endswith("All is well.\n")


def test_a_failure_is_printed_with_its_remedy_and_the_rest_is_checked(capsys, monkeypatch):
    def broken():
        raise ZeroDivisionError("oops")

    def failing():
        raise machine_checks.Failure("it is not there", "Put it there.")

    listed = [
        machine_checks.Check("first", failing),
        machine_checks.Check("second", broken),
        machine_checks.Check("third", lambda: "found"),
    ]
    monkeypatch.setattr(machine_checks, "checks", lambda *unused: listed)
    assert cli.launch(doctor, []) == cli.CHECK_FAILED
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert lines[0].split() == ["FAIL", "first", "it", "is", "not", "there"]
    assert lines[1].strip() == "-> Put it there."
    assert "ZeroDivisionError: oops" in lines[2]
    assert lines[3].split() == ["ok", "third", "found"]
    assert printed.err == "error: 2 of the checks failed.\n"
