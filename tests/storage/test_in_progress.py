"""Unfinished files: locked while their writer lives, on any file system."""

import errno
import fcntl
import os
import shutil
import stat
import subprocess

import pytest

from tff_keyboard.storage import directories, files, in_progress


def opened(path):
    path.write_text("")
    return os.open(path, os.O_RDONLY)


def test_new_work_is_locked(tmp_path):
    path = in_progress.new_name(tmp_path / "store")
    assert in_progress.is_leftover_name(path.name)
    descriptor = opened(path)
    try:
        assert in_progress.lock(descriptor, path)
        with in_progress.held_unless_locked(path) as free:
            assert not free
    finally:
        os.close(descriptor)
    with in_progress.held_unless_locked(path) as free:
        assert free


def test_work_removed_as_a_leftover_is_created_again(tmp_path):
    path = tmp_path / "work"
    for take in (path.unlink, lambda: (tmp_path / "other").rename(path)):
        descriptor = opened(path)
        (tmp_path / "other").write_text("")
        take()
        assert not in_progress.lock(descriptor, path)
        os.close(descriptor)


def test_file_is_created_again_until_it_is_locked(tmp_path, monkeypatch):
    answers = iter([False, False, True])
    monkeypatch.setattr(files.in_progress, "lock", lambda descriptor, path: next(answers))
    files.write_atomically(tmp_path / "a.txt", [b"whole"])
    assert (tmp_path / "a.txt").read_text() == "whole"
    assert next(answers, None) is None


def test_a_file_system_without_locks_removes_nothing(tmp_path, monkeypatch):
    def no_locks(*unused):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    path = in_progress.new_name(tmp_path / "store")
    descriptor = opened(path)
    assert in_progress.lock(descriptor, path)
    os.close(descriptor)
    in_progress.remove_leftovers(tmp_path / "store")
    assert path.exists()


def test_missing_path_is_not_locked(tmp_path):
    with in_progress.held_unless_locked(tmp_path / "gone") as free:
        assert not free
    (tmp_path / "link").symlink_to(tmp_path)
    with in_progress.held_unless_locked(tmp_path / "link") as free:
        assert not free


def test_files_of_another_user_are_neither_removed_nor_locked(tmp_path, monkeypatch):
    """As in a folder that all users may write to; here the user id is replaced."""
    path = in_progress.new_name(tmp_path / "store")
    path.mkdir()
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with in_progress.held_unless_locked(path) as free:
        assert free  # without `own`
    locked = []
    monkeypatch.setattr(fcntl, "flock", lambda *arguments: locked.append(arguments))
    in_progress.remove_leftovers(tmp_path / "store")
    assert path.is_dir()
    assert not locked
    monkeypatch.setattr(os, "geteuid", lambda: owner)
    in_progress.remove_leftovers(tmp_path / "store")
    assert not path.exists()


def test_leftover_that_is_too_deep_is_kept_without_error(tmp_path):
    """1,500 levels would end every `train` on the machine with a RecursionError."""
    deep = tmp_path / ".socket.in-progress-evil"
    subprocess.run(["mkdir", "-p", deep / "/".join(["d"] * 1_500)], check=True)
    (tmp_path / ".socket.in-progress-left").mkdir()
    try:
        in_progress.remove_leftovers(tmp_path / "socket")
        assert not (tmp_path / ".socket.in-progress-left").exists()
    finally:
        subprocess.run(["rm", "-rf", deep], check=True)


@pytest.mark.parametrize("error", [RecursionError, PermissionError])
def test_files_that_cannot_be_removed_stay(tmp_path, monkeypatch, error):
    def fail(*unused, **more):
        raise error("no")

    (tmp_path / ".socket.in-progress-folder").mkdir()
    (tmp_path / ".socket.in-progress-file").write_text("")
    monkeypatch.setattr(shutil, "rmtree", fail)
    monkeypatch.setattr(os, "unlink", fail)
    in_progress.remove_leftovers(tmp_path / "socket")
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("umask, expected", [(0o0, 0o755), (0o022, 0o755), (0o077, 0o700)])
@pytest.mark.parametrize("mode", [0o755, 0o700])
def test_created_parents_are_not_writable_by_others(tmp_path, umask, expected, mode):
    """Users that may write to a directory may rename its content."""
    before = os.umask(umask)
    try:
        in_progress.make_missing(tmp_path / "a" / "b" / "c", mode)
        in_progress.make_missing(tmp_path / "a" / "b" / "c", 0o700)  # it exists
        with directories.new_directory(tmp_path / "x" / "y" / "store"):
            pass
        files.make_directory(tmp_path / "u" / "v", mode=mode)
    finally:
        os.umask(before)
    for name in ("a", "a/b", "x", "x/y", "u"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == expected, name
    for name in ("a/b/c", "u/v"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == expected & mode, name


def test_file_in_place_of_a_parent_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OSError, match=r"exists|Not a directory"):
            in_progress.make_missing(place)


@pytest.mark.parametrize("number, is_raised", [(errno.EINVAL, False), (errno.EIO, True)])
def test_sync_errors_are_ignored_only_if_unsupported(tmp_path, monkeypatch, number, is_raised):
    def fail(descriptor):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    if is_raised:
        with pytest.raises(OSError, match=os.strerror(number)):
            in_progress.sync(tmp_path)
    else:
        in_progress.sync(tmp_path)


def test_removes_all_leftovers_and_nothing_else(tmp_path):
    for name in ("store", "run"):
        in_progress.new_name(tmp_path / name).write_text("")
    (tmp_path / ".hidden").write_text("")
    (tmp_path / "data").write_text("")
    in_progress.remove_all_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".hidden", "data"]
