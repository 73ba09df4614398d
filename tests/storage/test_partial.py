"""Work in progress: locked while its maker lives, whatever the file system can do."""

import errno
import fcntl
import os

import pytest

from tff_keyboard.storage import files, partial


def opened(path):
    path.write_text("")
    return os.open(path, os.O_RDONLY)


def test_new_work_is_locked(tmp_path):
    path = partial.new_name(tmp_path / "store")
    assert partial.is_leftover_name(path.name)
    descriptor = opened(path)
    try:
        assert partial.lock(descriptor, path)
        with partial.held_unless_locked(path) as free:
            assert not free
    finally:
        os.close(descriptor)
    with partial.held_unless_locked(path) as free:
        assert free


def test_work_that_was_taken_for_a_leftover_is_made_again(tmp_path):
    path = tmp_path / "work"
    for take in (path.unlink, lambda: (tmp_path / "other").rename(path)):
        descriptor = opened(path)
        (tmp_path / "other").write_text("")
        take()
        assert not partial.lock(descriptor, path)
        os.close(descriptor)


def test_a_file_is_made_again_until_it_is_ours(tmp_path, monkeypatch):
    answers = iter([False, False, True])
    monkeypatch.setattr(files.partial, "lock", lambda descriptor, path: next(answers))
    files.write_atomically(tmp_path / "a.txt", [b"whole"])
    assert (tmp_path / "a.txt").read_text() == "whole"
    assert next(answers, None) is None


def test_a_file_system_without_locks_removes_nothing(tmp_path, monkeypatch):
    def no_locks(*unused):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    path = partial.new_name(tmp_path / "store")
    descriptor = opened(path)
    assert partial.lock(descriptor, path)
    os.close(descriptor)
    partial.remove_leftovers(tmp_path / "store")
    assert path.exists()


def test_what_is_not_there_is_not_ours(tmp_path):
    with partial.held_unless_locked(tmp_path / "gone") as free:
        assert not free
    (tmp_path / "link").symlink_to(tmp_path)
    with partial.held_unless_locked(tmp_path / "link") as free:
        assert not free


@pytest.mark.parametrize("number, is_raised", [(errno.EINVAL, False), (errno.EIO, True)])
def test_only_a_directory_that_cannot_be_synced_is_passed_over(
    tmp_path, monkeypatch, number, is_raised
):
    def fail(descriptor):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    if is_raised:
        with pytest.raises(OSError, match=os.strerror(number)):
            partial.sync(tmp_path)
    else:
        partial.sync(tmp_path)


def test_all_leftovers_of_a_directory_go_and_nothing_else(tmp_path):
    for name in ("store", "run"):
        partial.new_name(tmp_path / name).write_text("")
    (tmp_path / ".hidden").write_text("")
    (tmp_path / "data").write_text("")
    partial.remove_all_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".hidden", "data"]
