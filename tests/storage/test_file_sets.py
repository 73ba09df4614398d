"""A set of files is the old one or the new one, whenever its writer is killed."""

import os
import pathlib
import shutil

import pytest

from tff_keyboard.storage import directories, file_sets
from tff_keyboard.storage.errors import ProgramError

OLD = {"k.a": "old a", "k.b": "old b", "k.old": "old only"}
NEW = {"k.a": "new a", "k.b": "new b", "k.new": "new only"}
PARTS = ["k.a", "k.b", "k.old", "k.new"]
OTHERS = {"readme": "not of the set"}


class Killed(BaseException):
    """Stands for SIGKILL: no code of the writer runs after it."""


def content(folder):
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


def publish(folder, files=NEW):
    with directories.scratch_directory(folder / "k.a") as staged:
        for name, text in {**files, "scratch": "left over"}.items():
            (staged / name).write_text(text)
        file_sets.publish(staged, folder / "k.a", list(files), PARTS)


def old_set(folder):
    folder.mkdir()
    for name, text in {**OLD, **OTHERS}.items():
        (folder / name).write_text(text)
    return folder


def test_replaces_an_older_set(tmp_path):
    folder = old_set(tmp_path / "f")
    publish(folder)
    assert content(folder) == NEW | OTHERS
    assert sorted(path.name for path in folder.iterdir()) == sorted(NEW | OTHERS)
    publish(folder, OLD)
    assert content(folder) == OLD | OTHERS


def test_a_first_set_makes_its_folder(tmp_path):
    publish(tmp_path / "deep" / "f")
    assert content(tmp_path / "deep" / "f") == NEW


@pytest.mark.parametrize("nth", range(1, 12))
@pytest.mark.parametrize("on_disk", [False, True], ids=["before the call", "after the call"])
def test_a_kill_at_any_change_leaves_one_whole_set(tmp_path, monkeypatch, nth, on_disk):
    folder = old_set(tmp_path / "f")
    calls = 0

    def counted(call):
        def change(*arguments, **options):
            nonlocal calls
            calls += 1
            if calls == nth and not on_disk:
                raise Killed
            try:
                return call(*arguments, **options)
            finally:
                if calls == nth:
                    raise Killed

        return change

    with monkeypatch.context() as patch:
        for name in ("replace", "unlink", "rename"):
            patch.setattr(pathlib.Path, name, counted(getattr(pathlib.Path, name)))
        patch.setattr(directories, "exchange", counted(directories.exchange))
        patch.setattr(shutil, "rmtree", counted(shutil.rmtree))
        killed = False
        try:
            publish(folder)
        except Killed:
            killed = True
    assert killed or calls < nth
    sets = (OLD | OTHERS, NEW | OTHERS)
    assert file_sets.is_interrupted(folder / "k.a") or content(folder) in sets
    file_sets.finish(folder / "k.a", PARTS)
    assert not file_sets.is_interrupted(folder / "k.a")
    assert content(folder) in sets
    publish(folder)
    assert content(folder) == NEW | OTHERS
    assert not list(folder.glob(".*"))


def test_an_error_before_the_rename_leaves_the_old_set(tmp_path, monkeypatch):
    folder = old_set(tmp_path / "f")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tff_keyboard.storage.in_progress.sync", full)
    with pytest.raises(OSError, match="No space left"):
        publish(folder)
    assert content(folder) == OLD | OTHERS


@pytest.fixture
def planted(tmp_path):
    """Creates a directory that came with another user's files and imitates the hidden name."""
    folder = old_set(tmp_path / "f")
    (folder / ".k.a.ready").mkdir()
    return folder


def refused(folder):
    before = {path: path.lstat() for path in folder.parent.rglob("*")}
    for write in (lambda: file_sets.finish(folder / "k.a", PARTS), lambda: publish(folder)):
        with pytest.raises(ProgramError, match="Nothing was changed") as caught:
            write()
        assert str(folder / ".k.a.ready") in str(caught.value)
        assert "\n" not in str(caught.value)
    after = {path: path.lstat() for path in folder.parent.rglob("*")}
    assert after.keys() == before.keys()
    assert content(folder) == OLD | OTHERS


@pytest.mark.parametrize(
    "gone",
    [
        b'["readme"]',
        b'["../mine", "k.old"]',
        b"[1]",
        b"[[]]",
        b"{",
        b'{"k.old": 1}',
        b'"k.old"',
        b"",
        b"\xff",
        b"[" * 10_000,
        b"1" * 10_000,
        b'["k.old"' + b" " * 2**20 + b"]",
    ],
    ids=[
        "foreign",
        "elsewhere",
        "number",
        "list",
        "cut",
        "object",
        "string",
        "empty",
        "no text",
        "deep",
        "huge number",
        "large",
    ],
)
def test_a_planted_list_removes_nothing(planted, gone):
    (planted.parent / "mine").write_text("1")
    (planted / ".k.a.ready" / "k.a").write_text("evil")
    (planted / ".k.a.ready" / ".gone").write_bytes(gone)
    refused(planted)


@pytest.mark.parametrize("name", ["readme", ".bashrc"])
def test_planted_file_replaces_only_parts(planted, name):
    (planted / ".k.a.ready" / "k.a").write_text("evil")
    (planted / ".k.a.ready" / ".gone").write_text("[]")
    (planted / ".k.a.ready" / name).write_text("evil")
    refused(planted)


@pytest.mark.parametrize("name", [".gone", "k.a"])
@pytest.mark.parametrize("kind", ["pipe", "endless", "link", "directory"])
def test_planted_part_must_be_a_regular_file(planted, name, kind):
    place = planted / ".k.a.ready" / name
    (planted.parent / "list").write_text('["k.old"]')
    {
        "pipe": lambda: os.mkfifo(place),
        "endless": lambda: place.symlink_to("/dev/zero"),
        "link": lambda: place.symlink_to(planted.parent / "list"),
        "directory": place.mkdir,
    }[kind]()
    refused(planted)


def test_a_planted_link_to_a_directory(planted):
    (planted / ".k.a.ready").rmdir()
    (planted.parent / "other").mkdir()
    (planted.parent / "other" / "k.b").write_text("mine")
    (planted / ".k.a.ready").symlink_to("../other")
    refused(planted)


def test_directory_of_another_user_is_rejected(planted, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: planted.stat().st_uid + 1)
    refused(planted)


@pytest.mark.parametrize("left", [["k.a", ".gone"], [".gone"], []])
def test_continues_after_a_kill_at_any_step(planted, left):
    for name in left:
        (planted / ".k.a.ready" / name).write_text('["k.old"]' if name == ".gone" else "new a")
    file_sets.finish(planted / "k.a", PARTS)
    expected = OLD | OTHERS | ({"k.a": "new a"} if "k.a" in left else {})
    if left:
        expected.pop("k.old")
    assert content(planted) == expected
    assert not file_sets.is_interrupted(planted / "k.a")


def test_reader_changes_nothing(planted):
    (planted / ".k.a.ready" / "k.a").write_text("new a")
    assert file_sets.is_interrupted(planted / "k.a")
    assert not file_sets.is_interrupted(planted / "k.b")
    assert not file_sets.is_interrupted(planted / "none" / "k.a")
    assert content(planted) == OLD | OTHERS
    assert (planted / ".k.a.ready" / "k.a").exists()
