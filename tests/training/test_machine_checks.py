"""The checks of the doctor find what is wrong and say what to do."""

import importlib.metadata
import pathlib
import shutil
import socket
import sys

import pytest

from tff_keyboard.training import machine_checks


def failure_of(check, *arguments):
    with pytest.raises(machine_checks.Failure) as caught:
        check(*arguments)
    assert caught.value.remedy
    return str(caught.value)


def test_every_check_is_made():
    names = [check.name for check in machine_checks.checks(pathlib.Path())]
    for expected in [
        "python",
        "tensorflow-federated",
        "localhost",
        "a TFF round",
        "disk",
        "memory",
    ]:
        assert expected in names


def without_training(monkeypatch):
    found = importlib.metadata.version

    def version(name):
        if name in machine_checks.TRAINING_PACKAGES:
            raise importlib.metadata.PackageNotFoundError(name)
        return found(name)

    monkeypatch.setattr(importlib.metadata, "version", version)


def test_installation_for_typing_needs_no_round_and_no_disk(monkeypatch):
    without_training(monkeypatch)
    checks = {check.name: check.look for check in machine_checks.checks(pathlib.Path())}
    assert not checks.keys() & {"tensorflow", "a TFF round", "disk", "memory", "imports"}
    assert "requirements.txt" in checks["training"]()
    monkeypatch.setattr(sys, "version_info", (3, 13, 0))
    assert checks["python"]()


def test_slow_checks_are_last_and_marked():
    checks = machine_checks.checks(pathlib.Path())
    assert [bool(check.takes) for check in checks] == [False] * (len(checks) - 2) + [True] * 2


def test_wrong_python(monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 12, 1))
    assert "needs 3.11" in failure_of(machine_checks.check_python)


def test_wrong_platform(monkeypatch):
    monkeypatch.setattr(machine_checks.platform, "machine", lambda: "arm64")
    assert "needs Linux x86_64" in failure_of(machine_checks.check_platform)


def test_packages(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.1")
    assert "needs 0.4.3" in failure_of(machine_checks.check_version, "dp-accounting")

    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert failure_of(machine_checks.check_package, "numpy") == "not installed"
    assert failure_of(machine_checks.check_version, "grpcio") == "not installed"


def test_a_package_that_does_not_import(monkeypatch):
    def fail(name):
        raise ImportError("libfoo.so: cannot open\nsecond line")

    monkeypatch.setattr(machine_checks.importlib, "import_module", fail)
    lines = "does not import: libfoo.so: cannot open"
    assert failure_of(machine_checks.check_package, "numpy") == f"numpy {lines}"
    monkeypatch.setattr(machine_checks.quiet, "import_tensorflow_federated", lambda: None)
    assert failure_of(machine_checks.check_imports) == f"tensorflow {lines}"


def test_no_localhost(monkeypatch):
    def refuse(*unused_arguments, **unused_options):
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(socket, "create_connection", refuse)
    assert "Connection refused" in failure_of(machine_checks.check_localhost)


def test_a_round_that_goes_wrong(monkeypatch):
    from tff_keyboard.algorithms.client_packing.local_context import LocalContext

    assert machine_checks.check_round().startswith("three clients in")
    monkeypatch.setattr(LocalContext, "invoke", lambda self, comp, arg: 8)
    assert failure_of(machine_checks.check_round) == "1 + 2 + 4 gave 8"


def test_little_disk(monkeypatch, tmp_path):
    usage = shutil.disk_usage(tmp_path)._replace(free=10**8)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    assert failure_of(machine_checks.check_disk, tmp_path) == "0.1 GB free, but 2 GB are required"


def test_read_only_directory(monkeypatch, tmp_path):
    monkeypatch.setattr(machine_checks, "MIN_DISK_GB", 0.0)
    monkeypatch.setattr(machine_checks.os, "access", lambda *unused: False)
    assert "read-only" in failure_of(machine_checks.check_disk, tmp_path / "new")


def test_little_memory(monkeypatch, tmp_path):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 9000000 kB\nMemAvailable: 8000000 kB\n")
    monkeypatch.setattr(machine_checks, "_MEMINFO", meminfo)
    monkeypatch.setattr(machine_checks, "_CONTROL_GROUP", tmp_path)
    assert machine_checks.available_memory_gb() == pytest.approx(8.192)
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("1000\n")
    assert machine_checks.available_memory_gb() == pytest.approx(8.192)
    (tmp_path / "memory.max").write_text("3000000000\n")
    (tmp_path / "memory.current").write_text("2000000000\n")
    assert machine_checks.available_memory_gb() == pytest.approx(1.0)
    assert failure_of(machine_checks.check_memory) == "1.0 GB available, but 3 GB are required"


def test_data_variable(monkeypatch, tmp_path):
    monkeypatch.setenv(machine_checks.DATA_VARIABLE, str(tmp_path / "missing"))
    assert "not a directory" in failure_of(machine_checks.check_data)
    monkeypatch.setenv(machine_checks.DATA_VARIABLE, str(tmp_path))
    assert machine_checks.check_data() == str(tmp_path)
    monkeypatch.delenv(machine_checks.DATA_VARIABLE)
    assert "not set" in machine_checks.check_data()
