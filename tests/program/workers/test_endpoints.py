"""A worker listens where only its owner can connect, or not at all, unless a port is allowed."""

import contextlib
import fcntl
import os
import pathlib
import shutil
import socket
import stat
import subprocess
import sys
import tempfile

import grpc
import pytest

from tests.support.processes.processes_below import listening_ports
from tff_keyboard.program import errors
from tff_keyboard.program.workers import endpoints, private_places, workers


def test_a_worker_opens_no_port_and_only_its_owner_may_connect():
    with workers.Worker() as worker:
        path = pathlib.Path(worker.address.removeprefix("unix:"))
        assert worker.address.startswith("unix:")
        assert path.is_socket()
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert listening_ports(worker.pid) == []
        with grpc.insecure_channel(worker.address) as channel:
            grpc.channel_ready_future(channel).result(timeout=600)
    assert not path.parent.exists()


@pytest.mark.skipif(os.getuid() != 0, reason="needs the right to become another user")
def test_another_user_cannot_connect():
    with workers.Worker() as worker:
        path = str(worker._endpoint.directory / str(worker._endpoint.port))
        assert pathlib.Path(path).is_socket()
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


@pytest.fixture
def folders(monkeypatch):
    """Makes these, by name, the only places for sockets."""
    with contextlib.ExitStack() as stack:

        def use(*names):
            base = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
            made = [base / name for name in names]
            for folder in made:
                folder.mkdir(parents=True)
            monkeypatch.setattr(private_places, "temporary", lambda run=None: made)
            return made

        yield use


class Copy:
    """Of no program."""

    path, folder = pathlib.Path("worker_binary"), 0

    def close(self):
        pass


def socket_file():
    return endpoints.SocketFile(Copy())


def test_a_place_that_will_not_do_is_passed_over(folders):
    missing, good = folders("missing", "good")
    missing.rmdir()
    endpoint = socket_file()
    assert endpoint.directory.parent == good
    assert stat.S_IMODE(endpoint.directory.stat().st_mode) == 0o700
    endpoint.close()
    assert list(good.iterdir()) == []


def test_a_long_name_of_the_temporary_folder_does_not_matter(folders):
    """As job schedulers give; a socket's name may have 107 bytes."""
    folders("x" * 100)
    endpoint = socket_file()
    with socket.socket(socket.AF_UNIX) as server:
        here = pathlib.Path.cwd()
        os.chdir(endpoint.working_directory)
        try:
            server.bind(str(endpoint.port))  # as the worker does, in its working directory
        finally:
            os.chdir(here)
        assert not endpoint.is_listening()
        server.listen()
        assert len(str(endpoint.directory)) > 107
        assert endpoint.is_listening()
    endpoint.close()


def test_a_directory_that_was_exchanged_is_not_connected_to(folders):
    """Where /tmp is not sticky, anybody may rename what lies in it."""
    (place,) = folders("place")
    place.chmod(0o777)
    endpoint = socket_file()
    endpoint.directory.rename(place / "moved")
    endpoint.directory.mkdir()
    with socket.socket(socket.AF_UNIX) as evil:
        evil.bind(str(endpoint.directory / str(endpoint.port)))
        evil.listen()
        assert not endpoint.is_listening()
    assert endpoint.working_directory.samefile(place / "moved")
    endpoint.close()


def test_places_are_tried_in_their_order(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", "/one")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    found = [str(place) for place in private_places.temporary(tmp_path)]
    assert found == ["/one", "/tmp", "/dev/shm", "/run/user/7", str(tmp_path)]
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setattr(tempfile, "tempdir", "/tmp")
    assert [str(place) for place in private_places.temporary()] == ["/tmp", "/dev/shm"]


@pytest.fixture
def no_copy(monkeypatch):
    def refuse(binary, run):
        raise errors.NoPrivateEndpointError("No place.")

    monkeypatch.setattr(endpoints.worker_copy, "WorkerCopy", refuse)


def test_no_port_is_opened_unless_it_is_allowed(no_copy, monkeypatch):
    monkeypatch.delenv(endpoints.ALLOW_VARIABLE, raising=False)
    with pytest.raises(errors.NoPrivateEndpointError, match=f"{endpoints.ALLOW_VARIABLE}=1") as one:
        endpoints.open_endpoint(pathlib.Path("worker_binary"))
    assert one.value.exit_code == 4
    assert len(str(one.value).splitlines()) == 1
    monkeypatch.setenv(endpoints.ALLOW_VARIABLE, "0")
    with pytest.raises(errors.NoPrivateEndpointError):
        endpoints.open_endpoint(pathlib.Path("worker_binary"))


def test_a_refusal_is_not_tried_again(no_copy, monkeypatch):
    monkeypatch.setattr(workers, "worker_binary_path", lambda: pathlib.Path("worker_binary"))
    calls = []
    refuse = endpoints.open_endpoint
    monkeypatch.setattr(endpoints, "open_endpoint", lambda *a: calls.append(a) or refuse(*a))
    with pytest.raises(errors.NoPrivateEndpointError):
        workers.Worker()
    assert len(calls) == 1


def test_an_allowed_port_is_said(no_copy, monkeypatch):
    monkeypatch.setenv(endpoints.ALLOW_VARIABLE, "1")
    with pytest.warns(UserWarning, match="TCP port without a password"):
        endpoint = endpoints.open_endpoint(pathlib.Path("worker_binary"))
    assert endpoint.binary == pathlib.Path("worker_binary")
    assert endpoint.address == f"127.0.0.1:{endpoint.port}"
    assert not endpoint.is_listening()
    endpoint.close()


def test_no_place_at_all(folders):
    (only,) = folders("only")
    only.rmdir()
    with pytest.raises(errors.NoPrivateEndpointError, match=r"No such file.*TMPDIR") as found:
        socket_file()
    assert len(str(found.value).splitlines()) == 1


def test_leftovers_are_known_by_their_lock(folders):
    """Not by a process id: another process namespace, with the same /tmp, knows others."""
    (place,) = folders("place")
    living = socket_file()
    left = place / f"{endpoints._PREFIX}of-a-kill"
    left.mkdir()
    (left / "1").touch()
    socket_file().close()
    assert list(place.iterdir()) == [living.directory]
    living.close()
    assert list(place.iterdir()) == []


COPY = """
import os, pathlib, types
from tff_keyboard.program.workers import endpoints
copy = types.SimpleNamespace(path=pathlib.Path("worker_binary"), folder=0, close=lambda: None)
endpoint = endpoints.SocketFile(copy)
"""
LEFT_BY_A_KILL = COPY + "os._exit(9)"
NEXT_ONE = COPY + "endpoint.close()"


def in_another_process(program, *before, **variables):
    return subprocess.run(
        [*before, sys.executable, "-c", program],
        env={**os.environ, **variables},
        cwd=pathlib.Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def short_folder():
    with tempfile.TemporaryDirectory() as folder:
        yield pathlib.Path(folder)


def test_what_a_kill_left_is_removed_by_the_next_one(short_folder):
    assert in_another_process(LEFT_BY_A_KILL, TMPDIR=str(short_folder)).returncode == 9
    assert len(list(short_folder.iterdir())) == 1
    assert in_another_process(NEXT_ONE, TMPDIR=str(short_folder)).returncode == 0
    assert list(short_folder.iterdir()) == []


def test_another_process_namespace_leaves_the_living_alone(short_folder, monkeypatch):
    alone = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc")
    if shutil.which("unshare") is None or in_another_process("", *alone).returncode:
        pytest.skip("no namespace of processes to be had here")
    monkeypatch.setattr(tempfile, "tempdir", str(short_folder))
    endpoint = socket_file()
    answer = in_another_process(NEXT_ONE, *alone, TMPDIR=str(short_folder))
    assert answer.returncode == 0, answer.stderr
    assert endpoint.directory.is_dir()
    endpoint.close()


def test_a_directory_that_is_taken_for_a_leftover_is_made_again(folders, monkeypatch):
    folders("place")
    make, made = tempfile.mkdtemp, []

    def make_and_lose_the_first(**options):
        made.append(make(**options))
        if len(made) == 1:
            pathlib.Path(made[0]).rmdir()
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", make_and_lose_the_first)
    endpoint = socket_file()
    assert [str(endpoint.directory)] == made[1:]
    descriptor = os.open(endpoint.working_directory, os.O_RDONLY)
    with pytest.raises(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)
    endpoint.close()
