"""User's parts: the object that is loaded, its record, and refusals in one line."""

import hashlib
import textwrap

import pytest

from tff_keyboard.storage import part_reference
from tff_keyboard.storage.errors import ConfigError


@pytest.fixture
def part_file(tmp_path):
    def write(text, name="parts.py"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(text))
        return path

    return write


def test_a_file(part_file):
    path = part_file("def double(x):\n    return 2 * x\n")
    loaded = part_reference.load(f"{path}:double", "model.type")
    assert loaded.part(4) == 8
    assert loaded.source == part_reference.PartSource(
        f"{path}:double", "", hashlib.sha256(path.read_bytes()).hexdigest()
    )


def test_a_dataclass_in_a_file(part_file):
    path = part_file(
        """
        from __future__ import annotations
        import dataclasses

        @dataclasses.dataclass
        class Point:
            x: int
        """
    )
    assert part_reference.load(f"{path}:Point", "model.type").part(3).x == 3


def test_two_parts_of_a_file_share_its_module(part_file):
    path = part_file("class A: pass\ndef make(): return A()\n")
    make = part_reference.load(f"{path}:make", "a").part
    assert isinstance(make(), part_reference.load(f"{path}:A", "b").part)


def test_an_installed_module():
    loaded = part_reference.load("packaging.version:Version", "model.type")
    assert str(loaded.part("1.2")) == "1.2"
    assert loaded.source.version
    assert loaded.source.reference == "packaging.version:Version"


@pytest.mark.parametrize(
    "text, attribute, message",
    [
        ("x = 3", "y", r"'y' does not exist in .*parts\.py\.$"),
        ("x = 3", "x", r"'x' is not a function or class in .*parts\.py\.$"),
        ("\n\n1 / 0", "x", r"parts\.py, line 3 raised ZeroDivisionError: division by zero$"),
        ("\nx = (", "x", r"parts\.py, line 2 raised SyntaxError: "),
        ("import nothing_of_this_name", "x", r"line 1 raised ModuleNotFoundError: "),
    ],
)
def test_refuses_a_file(part_file, text, attribute, message):
    path = part_file(text)
    with pytest.raises(ConfigError, match=message) as caught:
        part_reference.load(f"{path}:{attribute}", "model.type")
    assert str(caught.value).startswith("`model.type` = ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "reference, message",
    [
        ("parts.py", "must be 'module:attribute' or 'file.py:attribute'"),
        ("a:b:c", "must be 'module:attribute' or 'file.py:attribute'"),
        ("no_file.py:x", "there is no file /.*no_file.py"),
        ("no_module:x", "Python finds no source of a module 'no_module'"),
        ("no_module.inner:x", "Python finds no source of a module"),
        ("sys:exit", "Python finds no source of a module 'sys'"),
        (".parts:x", "Python finds no source of a module"),
    ],
)
def test_refuses_a_reference(reference, message):
    with pytest.raises(ConfigError, match=message):
        part_reference.load(reference, "model.type")


def test_absolute(tmp_path):
    assert part_reference.absolute("a/b.py:C", tmp_path) == f"{tmp_path}/a/b.py:C"
    assert part_reference.absolute("/x/b.py:C", tmp_path) == "/x/b.py:C"
    assert part_reference.absolute("a.b:C", tmp_path) == "a.b:C"
