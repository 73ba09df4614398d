"""The record of code that a user named: what it allows, and where it cannot be written."""

import hashlib
import importlib.util
import inspect
import os
import pathlib
import py_compile
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
    code = "import tff_keyboard.storage.part_reference, tff_keyboard.models.model_factory"
    environment = os.environ | {"XDG_STATE_HOME": str(tmp_path / "state")}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    assert not (tmp_path / "state").exists()


def plant_bytecode(source, code):
    """Writes a cache for `source` that Python runs without comparing it with the source."""
    cache = pathlib.Path(importlib.util.cache_from_source(str(source)))
    cache.parent.mkdir()
    other = source.parent / "other.py"
    other.write_text(code)
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(other), str(cache), invalidation_mode=mode)


def test_a_bytecode_cache_beside_the_file_is_not_run(part):
    plant_bytecode(part, "def f(): return 'other code'\n")
    assert part_reference.load(f"{part}:f", "model.type").part() == 1


def test_a_bytecode_cache_beside_a_module_is_not_run(tmp_path, monkeypatch):
    package = tmp_path / "package_of_a_test"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "part.py").write_text("def f(): return 1\n")
    plant_bytecode(package / "part.py", "def f(): return 'other code'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert part_reference.load("package_of_a_test.part:f", "model.type").part() == 1
    assert sys.modules["package_of_a_test"].part.f() == 1


def test_the_bytes_that_were_hashed_are_the_bytes_that_run(part, monkeypatch):
    """Another process changes the file as soon as it has been read."""
    sha256 = hashlib.sha256(part.read_bytes()).hexdigest()
    read = pathlib.Path.read_bytes

    def read_and_change(path):
        content = read(path)
        if path == part:
            part.write_text("def f(): return 'other code'\n")
        return content

    monkeypatch.setattr(pathlib.Path, "read_bytes", read_and_change)
    loaded = part_reference.load(f"{part}:f", "model.type")
    assert (loaded.part(), loaded.source.sha256) == (1, sha256)
    assert "return 1" in inspect.getsource(loaded.part)  # AutoGraph compiles this text


def test_two_contents_of_one_file_are_two_modules(part):
    """Also if they have the same size and were written within a second."""
    loaded = part_reference.load(f"{part}:f", "model.type")
    part.write_text("def f(): return 7\ndef g(): return 2\n")
    changed = part_reference.load(f"{part}:f", "model.type")
    assert (loaded.part(), changed.part()) == (1, 7)
    assert loaded.source.sha256 != changed.source.sha256


@pytest.mark.parametrize("separator", ["\u2028", "\x0b", "\x85", "\r", "\n"])
def test_a_name_with_a_line_separator_trusts_no_other_file(part, tmp_path, monkeypatch, separator):
    other = tmp_path / "other.py"
    other.write_text("def f(): return 'other code'\n")
    sha256 = hashlib.sha256(other.read_bytes()).hexdigest()
    folder = tmp_path / f"x{separator}{sha256} {tmp_path.name}"
    folder.mkdir()
    named = folder / "part.py"
    named.write_text("def f(): return 1\n")
    trusted_code.check_content(f"x{separator}{sha256} {other}:f", "model.type", "0" * 64)
    part_reference.load(f"{named}:f", "model.type")
    forget_process(monkeypatch)
    with pytest.raises(ConfigError, match="no code is run"):
        load_by_file(f"{other}:f")


def test_a_relative_path_in_the_variable_trusts_nothing(part, monkeypatch):
    monkeypatch.chdir(part.parent)
    monkeypatch.setenv("TFF_KEYBOARD_TRUST", "part.py")
    with pytest.raises(ConfigError, match="no code is run"):
        load_by_file("part.py:f")
