"""A worker listens where only its owner can connect; where that is impossible it says so."""

import contextlib
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile

import grpc
import pytest

from tff_keyboard.program import endpoints, errors, workers

CONSTANT = b"\0[::]:\0"


def listening_sockets(pid):
    """Inodes of the TCP sockets on which a process listens."""
    own = set()
    for descriptor in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since it was listed
            target = str(descriptor.readlink())
            if target.startswith("socket:["):
                own.add(target[8:-1])
    found = []
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in own:  # 0A is LISTEN
                found.append(words[1])
    return found


def test_a_worker_opens_no_port_and_only_its_owner_may_connect():
    with workers.Worker() as worker:
        path = pathlib.Path(worker.address.removeprefix("unix:"))
        assert worker.address.startswith("unix:")
        assert path.is_socket()
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert listening_sockets(worker.pid) == []
        with grpc.insecure_channel(worker.address) as channel:
            grpc.channel_ready_future(channel).result(timeout=600)
    assert not path.parent.exists()


@pytest.mark.skipif(os.getuid() != 0, reason="needs the right to become another user")
def test_another_user_cannot_connect():
    with workers.Worker() as worker:
        path = worker.address.removeprefix("unix:")
        program = (
            "import os, socket, sys\n"
            "os.setgid(65534); os.setuid(65534)\n"
            "try: socket.socket(socket.AF_UNIX).connect(sys.argv[1])\n"
            "except PermissionError: sys.exit(7)\n"
        )
        answer = subprocess.run([sys.executable, "-c", program, path], check=False)
    assert answer.returncode == 7


def test_a_fresh_worker_has_another_directory_than_the_one_before():
    with workers.Worker() as worker:
        first = worker.address
        worker.start()
        assert worker.address != first


def write_binary(path, content):
    path.write_bytes(content)
    path.chmod(0o755)
    return path


def test_the_copy_differs_in_the_constant_alone_and_is_made_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    binary = write_binary(tmp_path / "worker_binary", b"before" + CONSTANT + b"after")
    copy = endpoints.socket_binary(binary)
    assert copy.read_bytes() == b"before\0unix:\0after"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o700
    written = copy.stat().st_mtime_ns
    assert endpoints.socket_binary(binary) == copy
    assert copy.stat().st_mtime_ns == written
    assert [path.name for path in copy.parent.iterdir()] == [copy.name]


@pytest.mark.parametrize("content", [b"no constant", CONSTANT + b"twice" + CONSTANT])
def test_another_program_listens_on_a_port_and_says_so(tmp_path, monkeypatch, content):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    binary = write_binary(tmp_path / "worker_binary", content)
    with pytest.raises(errors.WorkerError):
        endpoints.socket_binary(binary)
    with pytest.warns(UserWarning, match="TCP port without a password"):
        endpoint = endpoints.open_endpoint(binary)
    assert endpoint.binary == binary
    assert endpoint.address == f"127.0.0.1:{endpoint.port}"
    assert not endpoint.is_listening()
    endpoint.close()


def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    binary = write_binary(tmp_path / "worker_binary", CONSTANT)
    with pytest.warns(UserWarning, match="TCP port"):
        endpoints.open_endpoint(binary).close()


def test_a_temporary_folder_with_too_long_a_name(tmp_path, monkeypatch):
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    monkeypatch.setattr(endpoints.tempfile, "tempdir", str(deep))
    with pytest.raises(errors.WorkerError, match="too long"):
        endpoints.SocketFile(tmp_path / "worker_binary")
    assert list(deep.iterdir()) == []


@pytest.fixture
def short_folder():
    """A temporary folder whose name leaves room for that of a socket; pytest's may be too long."""
    path = pathlib.Path(tempfile.mkdtemp())
    yield path
    shutil.rmtree(path)


def test_leftovers_of_the_dead_are_removed_and_of_the_living_are_not(short_folder, monkeypatch):
    tmp_path = short_folder
    monkeypatch.setattr(endpoints.tempfile, "tempdir", str(tmp_path))
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    dead = tmp_path / f"tff-keyboard-worker-{gone.pid}-abc"
    alive = tmp_path / f"tff-keyboard-worker-{os.getpid()}-abc"
    dead.mkdir()
    alive.mkdir()
    endpoints.SocketFile(tmp_path / "worker_binary").close()
    assert alive.exists()
    assert not dead.exists()
