"""The record of code that a user named: what it allows, and where it cannot be written."""

import os
import subprocess
import sys

import pytest

from tff_keyboard.storage import part_reference, trusted_code
from tff_keyboard.storage.errors import ConfigError


@pytest.fixture(name="part")
def _part(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(trusted_code, "_of_this_process", set())
    path = tmp_path / "part.py"
    path.write_text("def f(): return 1\ndef g(): return 2\n")
    return path


def load_by_file(reference):
    with trusted_code.named_by_file():
        return part_reference.load(reference, "model.type").part()


def forget_process(monkeypatch):
    monkeypatch.setattr(trusted_code, "_of_this_process", set())


def test_what_was_named_may_run_in_later_processes(part, tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match=r"TFF_KEYBOARD_TRUST=.*part\.py"):
        load_by_file(f"{part}:f")
    assert not (tmp_path / "state").exists()
    part_reference.load(f"{part}:f", "model.type")
    part_reference.load(f"{part}:f", "model.type")
    record = tmp_path / "state" / "tff-keyboard" / "trusted_code"
    assert len(record.read_text().splitlines()) == 1
    assert record.stat().st_mode & 0o777 == 0o600
    forget_process(monkeypatch)
    assert load_by_file(f"{part}:f") == 1
    with pytest.raises(ConfigError, match="no code is run"):
        load_by_file(f"{part}:g")
    part.write_text("def f(): return 3\n")
    with pytest.raises(ConfigError, match="with this content"):
        load_by_file(f"{part}:f")


def test_a_copy_at_another_place_is_other_code(part, tmp_path):
    part_reference.load(f"{part}:f", "model.type")
    copy = tmp_path / "copy.py"
    copy.write_bytes(part.read_bytes())
    with pytest.raises(ConfigError, match="no code is run"):
        load_by_file(f"{copy}:f")


@pytest.mark.parametrize("home", ["file", "damaged", "none"])
def test_a_home_that_cannot_be_used(part, tmp_path, monkeypatch, home):
    if home == "file":
        (tmp_path / "state").write_text("")
    elif home == "damaged":
        (tmp_path / "state" / "tff-keyboard").mkdir(parents=True)
        (tmp_path / "state" / "tff-keyboard" / "trusted_code").write_bytes(b"\xff\xfe\n\n x\n")
    else:
        monkeypatch.delenv("XDG_STATE_HOME")
        monkeypatch.setattr(trusted_code.pathlib.Path, "home", _no_home)
    part_reference.load(f"{part}:f", "model.type")
    assert load_by_file(f"{part}:f") == 1  # in this process
    with pytest.raises(ConfigError):
        load_by_file(f"{part}:g")


def _no_home():
    raise RuntimeError


def test_the_variable_lists_files_and_modules(part, monkeypatch):
    monkeypatch.setenv("TFF_KEYBOARD_TRUST", os.pathsep.join(["", str(part), "packaging.version"]))
    assert load_by_file(f"{part}:g") == 2
    with trusted_code.named_by_file():
        assert part_reference.load("packaging.version:Version", "model.type")
        with pytest.raises(ConfigError, match="no code is run"):
            part_reference.load("packaging.tags:sys_tags", "model.type")


def test_importing_remembers_nothing(tmp_path):
    code = "import tff_keyboard.storage.part_reference, tff_keyboard.models.registry"
    environment = os.environ | {"XDG_STATE_HOME": str(tmp_path / "state")}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    assert not (tmp_path / "state").exists()
