"""A Ray cluster of processes on this machine's loopback, for tests inside a network namespace.

python -m tests.support.cluster.cluster_fakes --nodes=3 -- COMMAND runs a command beside one.
"""

import argparse
import contextlib
import dataclasses
import os
import pathlib
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from tff_keyboard.training.loop import errors

ROOT = pathlib.Path(__file__).parents[3]
PORT = 46379
ADDRESS = f"127.0.0.1:{PORT}"
IN_A_NAMESPACE = (
    "unshare",
    "--user",
    "--map-root-user",
    "--net",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
    "sh",
    "-c",
)
_LOOPBACK_UP = 'ip link set lo up && mount -t tmpfs tmpfs /dev/shm && exec "$@"'
_OBJECT_STORE = "--object-store-memory=100000000"
_START_SECONDS = 300.0


def namespaced(*command: str) -> list[str]:
    """The command in namespaces of its own: loopback, processes and shared memory are its alone."""
    return [*IN_A_NAMESPACE, _LOOPBACK_UP, "sh", *command]


def why_not() -> str:
    """Why a cluster cannot be started here, or ""."""
    try:
        import ray  # noqa: F401
    except ImportError:
        return "the extra [cluster] is not installed (`uv sync --extra cluster`)"
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return "unshare or ip is missing"
    if subprocess.run(namespaced("true"), capture_output=True).returncode:
        return "this user may not make namespaces"
    return ""


class Cluster:
    """A head that computes, and more nodes; a context manager. Sets Ray's environment variables.

    Args:
      nodes: Nodes besides the head.
      head_computes: Whether the head has a node's resource.
    """

    def __init__(self, nodes: int = 1, *, head_computes: bool = True):
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="r", dir="/tmp"))  # sockets: be short
        os.environ |= {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
            "RAY_ADDRESS": ADDRESS,
            "RAY_worker_niceness": "0",  # else 15: nodes and driver share the cores here
            # A raylet answers its first driver when its first worker is up, and never where that
            # took longer than this (60 s if left out), as on a machine with much else to do.
            "RAY_worker_register_timeout_seconds": "1200",
            "PYTHONPATH": str(ROOT),
        }
        self.processes: list[subprocess.Popen] = []
        self.addresses: dict[int, str] = {}
        self._started = 0
        head = (
            "--head",
            f"--port={PORT}",
            "--include-dashboard=false",
            f"--temp-dir={self._folder / 'r'}",
        )
        try:
            self.start(*head, computes=head_computes)
            for _ in range(nodes):
                self.start(f"--address={ADDRESS}")
        except BaseException:
            self.close()
            raise

    def start(self, *options: str, computes: bool = True) -> subprocess.Popen:
        """Starts a node and waits until it is up."""
        self._started += 1
        log = self._folder / f"start{self._started}.log"
        # An address for each: the driver belongs to the head's, and ends when that node does.
        address = f"127.0.0.{self._started}"
        resources = ['--resources={"tff_keyboard": 1}'] if computes else []
        with log.open("wb") as output:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "ray.scripts.scripts",
                    "start",
                    "--block",
                    f"--node-ip-address={address}",
                    *options,
                    "--num-cpus=1",
                    "--min-worker-port=0",
                    "--max-worker-port=0",
                    "--disable-usage-stats",
                    _OBJECT_STORE,
                    *resources,
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.processes.append(process)
        self.addresses[process.pid] = address
        deadline = time.monotonic() + _START_SECONDS
        while "Ray runtime started" not in log.read_text():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"no node: {log.read_text()[-1500:]}")
            time.sleep(0.2)
        return process

    def kill_node(self, process: subprocess.Popen) -> None:
        """As if the machine lost its power: all processes of the node at once."""
        for pid in processes_of(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()

    def close(self) -> None:
        for process in reversed(self.processes):
            if process.poll() is None:
                process.terminate()
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill_node(process)
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *unused_exception: object) -> None:
        self.close()


def processes() -> dict[int, tuple[int, str]]:
    """Of this namespace: process id -> parent, command."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            facts = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            if facts[0] != "Z":
                found[int(folder.name)] = int(facts[1]), command.strip()
    return found


def processes_of(pid: int) -> list[int]:
    """A process and all below it."""
    table = processes()
    found = [pid]
    for parent in found:
        found += [child for child, (above, _) in table.items() if above == parent]
    return found


def signal_if_there(pid: int, number: int) -> None:
    """Sends a signal to a process that may be gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def named(text: str) -> list[int]:
    """Processes whose command has a text in it."""
    return [pid for pid, (_, command) in processes().items() if text in command]


@dataclasses.dataclass(frozen=True)
class Arithmetic:
    """An `engine.Function` without TFF: shared + item squared, after some seconds.

    A folder in `shared` gets a file for each computation, named after the process; an item that
    has a file `fail_<item>` there raises an error.
    """

    key: str = "arithmetic"

    def __call__(self, shared, item):
        folder, addend, seconds = shared
        if folder is not None:
            (pathlib.Path(folder) / f"{item}_{os.getpid()}_{secrets.token_hex(4)}").touch()
            if (pathlib.Path(folder) / f"fail_{item}").exists():
                raise errors.RunDirectoryError(f"item {item} has no data")
        time.sleep(seconds)
        return addend + item**2

    def close(self):
        """Nothing is kept."""


def main() -> int:
    """Runs a command with a cluster of its own, whose head does not compute."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("command", nargs="+")
    flags = parser.parse_args()
    if not flags.inside:
        own = (
            sys.executable,
            "-m",
            "tests.support.cluster.cluster_fakes",
            f"--nodes={flags.nodes}",
            "--inside",
        )
        return subprocess.run(namespaced(*own, "--", *flags.command), cwd=ROOT).returncode
    with Cluster(flags.nodes, head_computes=False):
        return subprocess.run(flags.command).returncode


if __name__ == "__main__":
    sys.exit(main())
