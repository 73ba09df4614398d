"""Files are complete or absent; a failure leaves the previous file."""

import errno
import os
import resource
import stat
import subprocess
import sys

import pytest

from tests.support import strange_files
from tff_keyboard.config import config_file
from tff_keyboard.data.store import forms_file, store_card
from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.evaluation.results import result
from tff_keyboard.privacy.ledger import ledger
from tff_keyboard.storage import (
    errors,
    files,
    in_progress,
    metrics_rows,
    model_description,
    names,
    npz,
)


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


READERS = {
    "bytes": (files.read_bytes, errors.RunDirectoryError),
    "text": (files.read_text, errors.RunDirectoryError),
    "json": (files.read_json, errors.RunDirectoryError),
    "rows": (metrics_rows.read_rows, errors.RunDirectoryError),
    "sound rows": (metrics_rows.read_sound_rows, errors.RunDirectoryError),
    "ledger": (ledger.read_ledger, errors.RunDirectoryError),
    "config": (config_file.load_of_run, errors.ConfigError),
    "vocabulary": (Vocabulary.load, errors.DataError),
    "model": (lambda path: model_description.read_description(path.parent), errors.SavedModelError),
    "arrays": (npz.read_headers, OSError),
    "card": (lambda path: store_card.read_card(path.parent), errors.DataError),
    "evaluation": (lambda path: result.read_json(path, dict, "again"), errors.DataError),
    "forms": (forms_file.read_forms, OSError),
}
NAMES = {"model": names.MODEL_DESCRIPTION, "card": names.DATA_CARD, "ledger": names.LEDGER}


@pytest.mark.parametrize("kind", strange_files.KINDS)
@pytest.mark.parametrize("reader", READERS)
def test_pipes_and_devices_are_not_read(tmp_path, reader, kind):
    read, error = READERS[reader]
    path = tmp_path / NAMES.get(reader, "file")
    strange_files.put_strange_file(path, kind)
    with strange_files.limited(), pytest.raises(error) as caught:
        read(path)
    assert "\n" not in str(caught.value)


def test_a_pipe_is_not_appended_to(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with strange_files.limited():
        with pytest.raises(errors.ProgramError, match="Cannot write"):
            files.append(tmp_path / "pipe", b"new")
        reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
        try:
            with pytest.raises(errors.ProgramError, match="is not a regular file"):
                files.append(tmp_path / "pipe", b"new")
            assert os.read(reader, 9) == b""
        finally:
            os.close(reader)


def test_a_link_to_a_file_of_the_user_is_not_read_in_a_run(tmp_path):
    (tmp_path / "secret").write_text("mine")
    (tmp_path / "vocabulary.txt").symlink_to("secret")
    with pytest.raises(errors.RunDirectoryError, match="it is a link, which is not followed"):
        files.read_text(tmp_path / "vocabulary.txt")
    assert files.content(tmp_path / "vocabulary.txt", follow_link=True) == b"mine"


def test_files_have_a_limit(tmp_path):
    """Files without content on disk; an archive has them in a few bytes."""
    for name, size in (("large", files.MAX_BYTES), ("table", files.MAX_TABLE_BYTES)):
        with (tmp_path / name).open("wb") as file:
            file.truncate(size + 1)
    with strange_files.limited():
        with pytest.raises(errors.RunDirectoryError, match="more than 1,073,741,824 bytes"):
            files.read_bytes(tmp_path / "large")
        with pytest.raises(errors.RunDirectoryError, match="more than 67,108,864 bytes"):
            files.read_json(tmp_path / "table")
        with pytest.raises(errors.ConfigError, match="more than 67,108,864 bytes"):
            config_file.load_of_run(tmp_path / "table")
    (tmp_path / "exact").write_bytes(b"12345")
    assert files.read_bytes(tmp_path / "exact", max_bytes=5) == b"12345"
    with pytest.raises(errors.RunDirectoryError, match="more than 4 bytes"):
        files.read_bytes(tmp_path / "exact", max_bytes=4)


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
