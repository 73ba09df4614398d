"""Files are complete or absent; a failure leaves the previous file."""

import errno
import os
import resource
import stat
import subprocess
import sys

import pytest

from tff_keyboard.storage import errors, files, in_progress


def test_replaces_the_content(tmp_path):
    path = tmp_path / "file"
    files.write_atomically(path, [b"old"])
    files.write_atomically(path, [b"n", memoryview(b"ew")])
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_full_disk_loses_nothing(tmp_path):
    path = tmp_path / "file"
    files.write_atomically(path, [b"old"])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))  # the kernel rejects larger files
    try:
        with pytest.raises(
            errors.ProgramError, match=r"Cannot write .*file.*Existing files are unchanged"
        ):
            files.write_atomically(path, [b"x" * 5000])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_disk_full_when_forced_to_disk(tmp_path, monkeypatch):
    def fsync(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(errors.ProgramError, match="No space left on device"):
        files.write_atomically(tmp_path / "file", [b"new"])
    assert not list(tmp_path.iterdir())


def test_read_only_directory(tmp_path, monkeypatch):
    # A super-user, as in a container, may write anywhere, so the kernel's error is simulated.
    def refuse(*unused_arguments, **unused_options):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(errors.ProgramError, match="Read-only file system"):
        files.write_atomically(tmp_path / "file", [b"new"])


def test_directory_below_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.ProgramError, match="Cannot write"):
        files.make_directory(tmp_path / "file" / "directory")


WRITER = """
import pathlib, sys, time
from tff_keyboard.storage import files
with files.open_atomically(pathlib.Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    print("ready", flush=True)
    time.sleep(600)
"""


def test_removes_leftovers_of_killed_but_not_of_living_writers(tmp_path):
    path = tmp_path / "[odd] name"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    try:
        for writer in writers:
            assert writer.stdout.readline() == b"ready\n"
        assert len(list(tmp_path.iterdir())) == 2
        writers[0].kill()
        writers[0].wait()
        files.write_atomically(path, [b"whole"])
        assert path.read_bytes() == b"whole"
        assert len(list(tmp_path.iterdir())) == 2  # the file, and the work of the living writer
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
            writer.stdout.close()
    in_progress.remove_all_leftovers(tmp_path)
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_of_the_writer_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    files.write_atomically(path, [b"old"])

    def chunks():
        yield b"new"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        files.write_atomically(path, chunks())
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_modes(tmp_path):
    files.write_atomically(tmp_path / "secret", [b"x"], mode=files.OWNER_ONLY)
    files.append(tmp_path / "ledger", b"x", mode=files.OWNER_ONLY)
    files.write_atomically(tmp_path / "open", [b"x"])
    (tmp_path / "plain").write_bytes(b"x")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes["secret"] == modes["ledger"] == 0o600
    assert modes["open"] == modes["plain"]


def test_links_are_replaced_or_refused_and_never_written_through(tmp_path):
    other = tmp_path / "other"
    other.write_bytes(b"mine")
    for name in ("written", "appended"):
        (tmp_path / name).symlink_to(other)
    files.write_atomically(tmp_path / "written", [b"new"])
    assert (tmp_path / "written").read_bytes() == b"new"
    with pytest.raises(errors.ProgramError, match=r"Cannot write .*appended"):
        files.append(tmp_path / "appended", b"new")
    assert other.read_bytes() == b"mine"


def test_failed_append_leaves_the_file_unchanged(tmp_path, monkeypatch):
    path = tmp_path / "file"
    files.append(path, b"one\n")
    files.append(path, b"two\n")

    def fsync(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        with pytest.raises(errors.ProgramError, match="No space left on device"):
            files.append(path, b"three\n")
    assert path.read_bytes() == b"one\ntwo\n"


@pytest.mark.parametrize(
    "content, message",
    [
        (None, "is missing"),
        (b"\xff", "not UTF-8"),
        (b"{", "not valid JSON"),
        (b"[]", "not hold a JSON object"),
        (b"[" * 100_000, "nested deeper than 100 levels"),
    ],
    ids=["missing", "bytes", "cut", "list", "deep"],
)
def test_a_damaged_file_of_a_run_is_one_line(tmp_path, content, message):
    path = tmp_path / "environment.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(errors.RunDirectoryError, match=f"environment.json.* {message}") as raised:
        files.read_json(path)
    assert "\n" not in str(raised.value)
