"""Files are complete or not there; what was there before a failure still is."""

import errno
import os
import pathlib
import resource

import pytest

from tff_keyboard.program import errors
from tff_keyboard.storage import atomic_files


def test_replaces_the_content(tmp_path):
    path = tmp_path / "file"
    atomic_files.write_atomically(path, [b"old"])
    atomic_files.write_atomically(path, [b"n", memoryview(b"ew")])
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_full_disk_loses_nothing(tmp_path):
    path = tmp_path / "file"
    atomic_files.write_atomically(path, [b"old"])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))  # the kernel refuses more
    try:
        with pytest.raises(errors.ProgramError, match=r"Cannot write .*file.*Nothing .* lost"):
            atomic_files.write_atomically(path, [b"x" * 5000])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_disk_full_when_forced_to_disk(tmp_path, monkeypatch):
    def fsync(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(errors.ProgramError, match="No space left on device"):
        atomic_files.write_atomically(tmp_path / "file", [b"new"])
    assert not list(tmp_path.iterdir())


def test_read_only_directory(tmp_path, monkeypatch):
    # A super-user, as in a container, may write anywhere; so the kernel's answer is played.
    def refuse(*unused_arguments, **unused_options):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(pathlib.Path, "open", refuse)
    with pytest.raises(errors.ProgramError, match="Read-only file system"):
        atomic_files.write_atomically(tmp_path / "file", [b"new"])


def test_directory_below_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.ProgramError, match="Cannot write"):
        atomic_files.make_directory(tmp_path / "file" / "directory")


def test_leftovers(tmp_path):
    (tmp_path / ("a" + atomic_files.TEMPORARY_SUFFIX)).write_text("half")
    (tmp_path / "b").write_text("whole")
    atomic_files.remove_leftovers(tmp_path)
    assert list(tmp_path.iterdir()) == [tmp_path / "b"]
