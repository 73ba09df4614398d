"""A directory appears completely or not at all, even if its writer is killed."""

import errno
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest

from tff_keyboard.storage import directories
from tff_keyboard.storage.directories import new_directory

ROOT = pathlib.Path(__file__).parents[2]
MAKER = """
import pathlib, sys, time
from tff_keyboard.storage.directories import new_directory
with new_directory(pathlib.Path(sys.argv[1])) as work:
    (work / "half").write_text("1")
    print("ready", flush=True)
    time.sleep(600)
"""


def names(directory):
    return sorted(entry.name for entry in directory.iterdir())


def test_appears_at_the_end(tmp_path):
    target = tmp_path / "deep" / "store"
    with new_directory(target) as work:
        (work / "a").write_text("1")
        assert not target.exists()
    assert names(target) == ["a"]
    assert names(target.parent) == ["store"]


def test_replaces_and_leaves_no_temporary_files(tmp_path):
    target = tmp_path / "store"
    for name in ("old", "new"):
        with new_directory(target, replaces=("old", "new")) as work:
            (work / name).write_text("1")
    assert names(target) == ["new"]
    assert names(tmp_path) == ["store"]


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_is_not_followed(tmp_path, exists):
    if exists:
        filled(tmp_path / "real", "mine")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with (
        pytest.raises(OSError, match="is a link") as caught,
        new_directory(tmp_path / "link", replaces=["a"]),
    ):
        pass
    assert caught.value.filename == str(tmp_path / "link")
    assert names(tmp_path) == ["link", "real"][: 1 + exists]
    assert not exists or (tmp_path / "real" / "a").read_text() == "mine"


@pytest.mark.parametrize("other", ["chapter1.tex", "directory of a known name", "link later"])
def test_a_directory_with_other_names_is_not_replaced(tmp_path, other):
    target = tmp_path / "store"
    filled(target, "old")

    def add():
        if other == "chapter1.tex":
            (target / other).write_text("mine")
        elif other == "link later":
            target.rename(tmp_path / "moved")
            target.symlink_to(tmp_path / "moved")
        else:
            (target / "b").mkdir()
            (target / "b" / "chapter1.tex").write_text("mine")

    for is_late in [True] if other == "link later" else [False, True]:
        if not is_late:
            add()
        with (  # noqa: PT012
            pytest.raises(OSError, match=r"in it, which would be deleted|is a link"),
            new_directory(target, replaces=["a", "b"]) as work,
        ):
            assert is_late
            add()
            (work / "a").write_text("new")
        assert (target / "a").read_text() == "old"
        assert len(names(target)) == (1 if other == "link later" else 2)
        assert [name for name in names(tmp_path) if name.startswith(".")] == []
        if not is_late:
            shutil.rmtree(target)
            filled(target, "old")


def test_leftovers_are_removed_only_if_their_names_are_known(tmp_path):
    target, aside = tmp_path / "store", tmp_path / f".store{directories._REPLACED}0123456789abcdef"
    filled(target, "new")
    filled(aside, "old")
    (aside / "chapter1.tex").write_text("mine")
    directories.remove_leftovers(target, ["a"])
    assert names(aside) == ["a", "chapter1.tex"]


def test_a_file_is_not_replaced(tmp_path):
    (tmp_path / "store").write_text("mine")
    with (
        pytest.raises(NotADirectoryError) as caught,
        directories.new_directory(tmp_path / "store"),
    ):
        pass
    assert caught.value.filename == str(tmp_path / "store")
    assert (tmp_path / "store").read_text() == "mine"


def test_error_names_the_target(tmp_path):
    with pytest.raises(FileNotFoundError) as caught, directories.new_directory(tmp_path / "a") as w:
        (w / "missing" / "file").write_text("")
    assert caught.value.filename == str(tmp_path / "a")
    assert not names(tmp_path)


REPLACER = """
import os, pathlib, shutil, sys
from tff_keyboard.storage import directories
calls = 0

def counted(function):
    def call(*arguments, **options):
        global calls
        if calls == int(sys.argv[2]):
            os.kill(os.getpid(), 9)
        calls += 1
        return function(*arguments, **options)
    return call

for module, name in [(os, "fsync"), (os, "rename"), (os, "mkdir"), (os, "unlink"), (os, "rmdir"),
                     (os, "open"), (shutil, "rmtree")]:
    setattr(module, name, counted(getattr(module, name)))
with directories.new_directory(pathlib.Path(sys.argv[1]), replaces=["one", "two"]) as work:
    for part in ("one", "two"):
        (work / part).write_text("new")
print("done")
"""


def test_a_kill_at_any_call_leaves_the_old_or_the_new_directory(tmp_path):
    target = tmp_path / "store"
    for kill_at in range(200):
        shutil.rmtree(tmp_path)
        target.mkdir(parents=True)
        for part in ("one", "two"):
            (target / part).write_text("old")
        command = [sys.executable, "-S", "-c", REPLACER, str(target), str(kill_at)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        directories.restore(target)
        actual = {path.name: path.read_text() for path in target.iterdir()}
        assert actual in ({"one": "old", "two": "old"}, {"one": "new", "two": "new"}), kill_at
        directories.remove_leftovers(target, ["one", "two"])
        assert names(tmp_path) == ["store"]
        if done.stdout == "done\n":
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
    assert kill_at > 8


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_the_old_one(tmp_path, error):
    target = tmp_path / "store"
    with new_directory(target) as work:
        (work / "old").write_text("1")

    def fail():
        with new_directory(target, replaces=["old"]) as work:
            (work / "new").write_text("1")
            raise error

    with pytest.raises(error):
        fail()
    assert names(target) == ["old"]
    assert names(tmp_path) == ["store"]


def test_removes_leftovers_of_killed_but_not_of_living_processes(tmp_path):
    target = tmp_path / "store"
    makers = [
        subprocess.Popen([sys.executable, "-c", MAKER, str(target)], stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    try:
        for maker in makers:
            assert maker.stdout.readline() == b"ready\n"
        assert len(names(tmp_path)) == 2
        os.kill(makers[0].pid, signal.SIGKILL)
        makers[0].wait()
        with new_directory(target) as work:
            (work / "a").write_text("1")
        assert len(names(tmp_path)) == 2  # the store, and the work of the living process
        assert target.is_dir()
    finally:
        for maker in makers:
            maker.kill()
            maker.wait()
            maker.stdout.close()


def filled(path, word):
    path.mkdir(parents=True)
    (path / "a").write_text(word)


def test_old_directory_is_restored_if_the_rename_fails(tmp_path, monkeypatch):
    filled(tmp_path / "store", "old")
    rename = pathlib.Path.rename

    def refuse(path, target):
        if target.name == "store" and "in-progress" in path.name:
            raise PermissionError(errno.EACCES, "Permission denied", str(target))
        return rename(path, target)

    monkeypatch.setattr(pathlib.Path, "rename", refuse)
    with (
        pytest.raises(PermissionError),
        new_directory(tmp_path / "store", replaces=["a"]) as work,
    ):
        (work / "a").write_text("new")
    assert (tmp_path / "store" / "a").read_text() == "old"
    assert names(tmp_path) == ["store"]


def test_renamed_directory_of_a_killed_process_is_restored_or_removed(tmp_path):
    aside = tmp_path / f".store{directories._REPLACED}0123456789abcdef"
    filled(aside, "old")
    directories.restore(tmp_path / "store")
    assert (tmp_path / "store" / "a").read_text() == "old"
    filled(aside, "older")
    directories.restore(tmp_path / "store")  # there is a newer directory
    assert (tmp_path / "store" / "a").read_text() == "old"
    directories.remove_leftovers(tmp_path / "store", ["a"])
    assert names(tmp_path) == ["store"]


def test_work_removed_as_a_leftover_is_created_again(tmp_path, monkeypatch):
    answers = iter([False, True])
    monkeypatch.setattr(directories.in_progress, "lock", lambda descriptor, path: next(answers))
    with new_directory(tmp_path / "store") as work:
        (work / "a").write_text("new")
    assert names(tmp_path / "store") == ["a"]
    assert next(answers, None) is None
