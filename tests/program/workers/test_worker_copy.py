"""The program that a worker runs is one that nobody but its user could have put there."""

import os
import pathlib
import shutil
import stat

import pytest

from tff_keyboard.program import errors
from tff_keyboard.program.workers import private_places, worker_copy

CONSTANT = b"\0[::]:\0"


@pytest.fixture
def binary(tmp_path):
    path = tmp_path / "worker_binary"
    path.write_bytes(b"before" + CONSTANT + b"after")
    path.chmod(0o755)
    return path


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The folder of copies; the only other place is `tmp_path / "second"`."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    second = tmp_path / "second"
    second.mkdir()
    monkeypatch.setattr(private_places, "temporary", lambda run=None: [second])
    return tmp_path / "cache" / "tff-keyboard"


def second(tmp_path):
    return tmp_path / "second" / f"tff-keyboard-{os.geteuid()}"


def socket_binary(binary):
    """The copy by its name."""
    copy = worker_copy.WorkerCopy(binary)
    assert copy.path.parent == pathlib.Path(f"/proc/self/fd/{copy.folder}")
    found = copy.path.parent.readlink() / copy.path.name
    assert found.samefile(copy.path)
    copy.close()
    return found


@pytest.mark.parametrize("umask", [0o022, 0o0])
def test_the_copy_differs_in_the_constant_alone_and_is_made_once(binary, cache, umask):
    before = os.umask(umask)
    try:
        copy = socket_binary(binary)
    finally:
        os.umask(before)
    assert copy.read_bytes() == b"before\0unix:\0after"
    assert stat.S_IMODE(copy.stat().st_mode) == stat.S_IMODE(cache.stat().st_mode) == 0o700
    inode = copy.stat().st_ino
    assert socket_binary(binary) == copy
    assert copy.stat().st_ino == inode
    assert list(cache.iterdir()) == [copy]


@pytest.mark.parametrize("content", [b"no constant", CONSTANT + b"twice" + CONSTANT])
def test_another_program_is_refused(binary, cache, content):
    binary.write_bytes(content)
    with pytest.raises(errors.NoPrivateEndpointError, match="in another way"):
        socket_binary(binary)
    assert list(cache.iterdir()) == []


def plant(binary, folder):
    """A program where the copy is looked for."""
    found = binary.stat()
    path = folder / f"{binary.name}-{found.st_size}-{found.st_mtime_ns}"
    path.write_text("evil")
    path.chmod(0o755)
    return path


def test_a_folder_that_others_may_write_to_is_not_used(binary, cache, tmp_path):
    cache.mkdir(parents=True)
    planted = plant(binary, cache)
    cache.chmod(0o777)
    assert socket_binary(binary).parent == second(tmp_path)
    assert planted.read_text() == "evil"


def test_a_folder_that_was_exchanged_is_not_run_from(binary, cache):
    """Whoever may write to the folder above can rename ours at any moment."""
    copy = worker_copy.WorkerCopy(binary)
    cache.rename(cache.with_name("moved"))
    cache.mkdir()
    plant(binary, cache)
    assert copy.path.read_bytes() == b"before\0unix:\0after"
    copy.close()


@pytest.mark.skipif(os.getuid() != 0, reason="needs the right to give files away")
@pytest.mark.parametrize("whose", ["file", "folder"])
def test_what_another_user_owns_is_not_run(binary, cache, tmp_path, whose):
    """As uid 65534 planted it in a cache of everybody, and root ran it."""
    cache.mkdir(parents=True, mode=0o700)
    given = {"file": plant(binary, cache), "folder": cache}[whose]
    os.chown(given, 65534, 65534)
    found = socket_binary(binary)
    assert found.parent == second(tmp_path)
    assert found.read_bytes() != b"evil"


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_link_is_not_followed(binary, cache, tmp_path, what):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    planted = plant(binary, elsewhere)
    cache.parent.mkdir()
    if what == "folder":
        cache.symlink_to(elsewhere)
    else:
        cache.mkdir()
        (cache / planted.name).symlink_to(planted)
    assert socket_binary(binary).parent == second(tmp_path)


@pytest.mark.parametrize("problem", ["file in the way", "no home", "no programs"])
def test_another_place_is_found(binary, cache, tmp_path, monkeypatch, problem):
    if problem == "file in the way":
        (tmp_path / "file").touch()
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    elif problem == "no home":
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setattr(pathlib.Path, "expanduser", no_home)
    else:
        real = os.fstatvfs

        def fstatvfs(descriptor):
            found = list(real(descriptor))
            is_cache = private_places.inside(descriptor).samefile(cache)
            found[8] |= os.ST_NOEXEC if is_cache else 0  # f_flag
            return os.statvfs_result(found)

        monkeypatch.setattr(os, "fstatvfs", fstatvfs)
    assert socket_binary(binary).parent == second(tmp_path)


def no_home(path):
    raise RuntimeError("Could not determine home directory.")


def test_no_place_is_one_line(binary, cache, tmp_path):
    cache.parent.touch()
    shutil.rmtree(tmp_path / "second")
    with pytest.raises(errors.NoPrivateEndpointError, match="XDG_CACHE_HOME to a folder") as found:
        socket_binary(binary)
    assert len(str(found.value).splitlines()) == 1


def test_copies_that_nobody_uses_are_removed(binary, cache):
    cache.mkdir(parents=True, mode=0o700)
    old, young = cache / "worker_binary-1-1", cache / "worker_binary-2-2"
    other = cache / "node-logs"
    for path in (old, young, other):
        path.touch()
    for path in (old, other):
        os.utime(path, (0, 0))
    copy = socket_binary(binary)
    assert sorted(cache.iterdir()) == sorted([copy, young, other])
    os.utime(copy, (0, 0))
    socket_binary(binary)  # using it counts
    assert copy.stat().st_mtime > worker_copy.UNUSED_SECONDS
