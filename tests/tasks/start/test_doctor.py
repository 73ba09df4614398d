"""The doctor continues after a failed check, and ends with an exit code."""

from tasks.start import doctor
from tff_keyboard.command_line import cli
from tff_keyboard.training import machine_checks


def test_healthy_machine_passes_every_check(capsys, tmp_path, monkeypatch):
    monkeypatch.delenv(machine_checks.DATA_VARIABLE, raising=False)
    monkeypatch.setattr(machine_checks, "MIN_DISK_GB", 0.0)
    monkeypatch.setattr(machine_checks, "MIN_MEMORY_GB", 0.0)
    doctor.run(doctor.Options(workdir=tmp_path / "new" / "runs"))
    output = capsys.readouterr().out
    assert "three clients in" in output
    assert "0.87.0" in output
    assert "FAIL" not in output
    assert output.endswith("All checks passed.\n")


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
    assert printed.err.startswith("error: 2 of the checks failed.")
