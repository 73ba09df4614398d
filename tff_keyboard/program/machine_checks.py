"""What this machine must have to type, and to train: Python, packages, a TFF worker, disk, memory.

Each `check_` returns what it found, or raises `Failure` with what to do.
"""

import contextlib
import dataclasses
import functools
import importlib
import importlib.metadata
import os
import pathlib
import platform
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent import futures

from tff_keyboard.host import extras, quiet

DATA_VARIABLE = "TFF_KEYBOARD_DATA"
MIN_DISK_GB = 2.0
MIN_MEMORY_GB = 3.0

# Distribution -> (module, version the code was tested with; "" where any will do).
KEYBOARD_PACKAGES = {
    "numpy": ("numpy", ""),
    "ai-edge-litert": ("ai_edge_litert.interpreter", ""),
    "cryptography": ("cryptography", ""),
    "werkzeug": ("werkzeug", ""),
}
TRAINING_PACKAGES = {
    "tensorflow": ("tensorflow", "2.14.1"),
    "tensorflow-federated": ("tensorflow_federated", "0.87.0"),
    "tensorflow-privacy": ("tensorflow_privacy", "0.9.0"),
    "tensorflow-text": ("tensorflow_text", "2.14.0"),
    "dp-accounting": ("dp_accounting", "0.4.3"),
    "grpcio": ("grpc", ""),
    "tensorboard": ("tensorboard", ""),
}

_MEMINFO = pathlib.Path("/proc/meminfo")
_CONTROL_GROUP = pathlib.Path("/sys/fs/cgroup")
_INSTALL = "Run `make install` (or `uv sync`), and `. .venv/bin/activate` in each shell."


class Failure(Exception):
    """A check failed: what is wrong, and what to do."""

    def __init__(self, problem: str, remedy: str):
        super().__init__(problem)
        self.remedy = remedy


@dataclasses.dataclass(frozen=True)
class Check:
    """A name and a function that returns what it found, or raises `Failure`."""

    name: str
    look: Callable[[], str]
    takes: str = ""  # what it does that takes long; "" for most


def check_python() -> str:
    """The version that TFF has wheels for; where nothing trains, any that runs this."""
    version = platform.python_version()
    if trains() and sys.version_info[:2] != (3, 11):
        raise Failure(f"Python {version}, needs 3.11", f"TFF 0.87 has wheels for 3.11. {_INSTALL}")
    return version


def check_platform() -> str:
    """Linux on x86-64."""
    found = f"{platform.system()} {platform.machine()}"
    if found != "Linux x86_64":
        raise Failure(f"{found}, needs Linux x86_64", "Use a Linux machine, WSL2 or a container.")
    return f"{found}, {platform.release()}"


def trains() -> bool:
    """Whether any package of training is installed, even if others are missing."""
    return any(map(_version, TRAINING_PACKAGES))


def check_version(distribution: str) -> str:
    """That a package of training is the one the code was tested with; imports nothing."""
    version, (_, tested) = _version(distribution), TRAINING_PACKAGES[distribution]
    if not version:
        raise Failure("not installed", _INSTALL)
    if tested and version != tested:
        raise Failure(f"{version}, needs {tested}", _INSTALL)
    return version


def check_package(distribution: str) -> str:
    """That a package of the keyboard imports; returns its version."""
    version = _version(distribution)
    if not version:
        raise Failure("not installed", "Run `pip install tff-keyboard`.")
    _import(KEYBOARD_PACKAGES[distribution][0])
    return version


def check_imports() -> str:
    """That all packages of training import."""
    with contextlib.suppress(Exception):  # what fails is said better below
        quiet.import_tensorflow_federated()
    for module, _ in TRAINING_PACKAGES.values():
        _import(module)
    return "all packages"


def check_nothing_trains() -> str:
    """Only where no package of training is installed."""
    return f"not installed: nothing trains here. To train: {extras.TO_TRAIN}"


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _import(module: str) -> None:
    try:
        importlib.import_module(module)
    except Exception as error:
        first_line = (str(error).splitlines() or [type(error).__name__])[0]
        raise Failure(f"{module} does not import: {first_line}", _INSTALL) from error


def check_localhost() -> str:
    """A connection to this machine."""
    with socket.socket() as server:
        try:
            server.bind(("127.0.0.1", 0))
            server.listen()
            socket.create_connection(server.getsockname(), timeout=5).close()
        except OSError as error:
            raise Failure(
                f"127.0.0.1 cannot be reached: {error.strerror or error}",
                "`play` and a cluster of one node listen there: bring up the loopback interface "
                "(`ip link set lo up`) or allow it in the sandbox.",
            ) from error
    return "127.0.0.1 answers"


def check_worker(timeout_seconds: float) -> str:
    """Starts a worker and has it add numbers of three clients."""
    import numpy as np
    import tensorflow_federated as tff

    from tff_keyboard.program import errors
    from tff_keyboard.program.engines import execution

    @tff.federated_computation(tff.FederatedType(np.int32, tff.CLIENTS))
    def total(values: tff.Value) -> tff.Value:
        return tff.federated_sum(values)

    def answer() -> int:
        tff.framework.set_default_context(installed.context)  # TFF's default is for one thread
        return total([1, 2, 4])

    remedy = "See that memory is free and that processes may be started."
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as logs, futures.ThreadPoolExecutor(1) as thread:
        try:
            with execution.install_context(
                start_timeout_seconds=timeout_seconds, log_directory=logs
            ) as installed:
                # Leaving the block stops the worker, and with it a call that hangs.
                found = thread.submit(answer).result(timeout=timeout_seconds)
        except errors.ProgramError as error:
            raise Failure(str(error), remedy) from error
        except TimeoutError:
            raise Failure(f"no answer within {timeout_seconds:g} seconds", remedy) from None
    if found != 7:
        raise Failure(f"1 + 2 + 4 gave {found}", _INSTALL)
    return f"started and answered in {time.monotonic() - start:.1f} s"


def check_disk(directory: pathlib.Path) -> str:
    """Space and the right to write at `directory`."""
    path = directory.absolute()
    existing = next(parent for parent in [path, *path.parents] if parent.exists())
    free = shutil.disk_usage(existing).free / 1e9
    if free < MIN_DISK_GB:
        raise Failure(
            f"{free:.1f} GB free, needs {MIN_DISK_GB:g}",
            "Free some space, or keep runs elsewhere with --workdir.",
        )
    if not os.access(existing, os.W_OK):
        raise Failure(f"{existing} is read-only", "Give a directory you may write to, --workdir.")
    return f"{free:.1f} GB free"


def check_memory() -> str:
    """What is available."""
    available = available_memory_gb()
    if available < MIN_MEMORY_GB:
        raise Failure(
            f"{available:.1f} GB available, needs {MIN_MEMORY_GB:g}",
            "Close programs, or set `execution.max_concurrent_clients` = 1 and fewer clients a "
            "round.",
        )
    return f"{available:.1f} GB available"


def available_memory_gb() -> float:
    """What the kernel says is available, or what is left of the container's limit if less."""
    fields = dict(line.split(":", 1) for line in _MEMINFO.read_text().splitlines())
    available = int(fields["MemAvailable"].split()[0]) * 1024
    with contextlib.suppress(OSError, ValueError):  # no control group, or one without a limit
        limit = int((_CONTROL_GROUP / "memory.max").read_text())
        used = int((_CONTROL_GROUP / "memory.current").read_text())
        available = min(available, limit - used)
    return available / 1e9


def check_cores() -> str:
    """How many may be used."""
    return f"{len(os.sched_getaffinity(0))} usable"


def check_data() -> str:
    """The real corpora, which only tests need."""
    path = os.environ.get(DATA_VARIABLE, "")
    if not path:
        return "not set (only needed for tests on real corpora)"
    if not pathlib.Path(path).is_dir():
        raise Failure(
            f"{path!r} is not a directory", f"Set {DATA_VARIABLE} to the corpora, or unset it."
        )
    return path


def check_cluster() -> str:
    """The nodes of the cluster that RAY_ADDRESS names: there, and as this machine."""
    from tff_keyboard.program import errors
    from tff_keyboard.program.cluster import cluster_status

    try:
        nodes = cluster_status.look("", {})
    except errors.ClusterError as error:
        raise Failure(str(error), "docs/cluster.md says how a cluster is started.") from None
    for node in nodes:
        if node.differences:
            raise Failure(
                f"{node.name} differs from this machine: {'; '.join(node.differences)}",
                "Install the same version on it; `tff-keyboard cluster status` lists all nodes.",
            )
    if not nodes:
        raise Failure(
            "no node computes", "Start one: `ray start ... --resources='{\"tff_keyboard\": 1}'`."
        )
    return f"{len(nodes)} nodes, all as this machine"


def checks(
    workdir: pathlib.Path, worker_timeout_seconds: float, cluster: bool = False
) -> list[Check]:
    """All checks, those that import TensorFlow last; where nothing trains, what typing needs."""
    found = [
        Check("python", check_python),
        *(Check(name, functools.partial(check_package, name)) for name in KEYBOARD_PACKAGES),
        Check("localhost", check_localhost),
        Check("cores", check_cores),
    ]
    if not trains():
        return [*found, Check("training", check_nothing_trains)]
    found += [
        Check("platform", check_platform),
        *(Check(name, functools.partial(check_version, name)) for name in TRAINING_PACKAGES),
        Check("disk", lambda: check_disk(workdir)),
        Check("memory", check_memory),
        Check(DATA_VARIABLE, check_data),
        Check("imports", check_imports, "importing TensorFlow and TFF"),
        Check("TFF worker", lambda: check_worker(worker_timeout_seconds), "starting a worker"),
    ]
    return [*found, *([Check("cluster", check_cluster)] if cluster else [])]
