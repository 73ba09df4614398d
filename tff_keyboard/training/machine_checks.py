"""Checks this machine for typing and for training: Python, packages, a TFF round, disk, memory.

Each `check_` returns a finding, or raises `Failure` with a remedy.
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
import time
from collections.abc import Callable

from tff_keyboard.host import extras, quiet

DATA_VARIABLE = "TFF_KEYBOARD_DATA"
MIN_DISK_GB = 2.0
MIN_MEMORY_GB = 3.0

# Distribution -> (module, tested version; "" for any version)
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
    """An error of a failed check, with its cause and a remedy."""

    def __init__(self, problem: str, remedy: str):
        super().__init__(problem)
        self.remedy = remedy


@dataclasses.dataclass(frozen=True)
class Check:
    """A name and a function that returns a finding or raises `Failure`."""

    name: str
    look: Callable[[], str]
    takes: str = ""  # the slow part of the check; "" if it is fast


def check_python() -> str:
    """Checks for a Python version that TFF supports; without training, any version is fine."""
    version = platform.python_version()
    if trains() and sys.version_info[:2] != (3, 11):
        raise Failure(f"Python {version}, needs 3.11", f"TFF 0.87 has wheels for 3.11. {_INSTALL}")
    return version


def check_platform() -> str:
    """Checks for Linux on x86-64."""
    machine = f"{platform.system()} {platform.machine()}"
    if machine != "Linux x86_64":
        raise Failure(f"{machine}, needs Linux x86_64", "Use a Linux machine, WSL2 or a container.")
    return f"{machine}, {platform.release()}"


def trains() -> bool:
    """Checks whether any package of training is installed, even if others are missing."""
    return any(map(_version, TRAINING_PACKAGES))


def check_version(distribution: str) -> str:
    """Checks that a package of training has the tested version, without importing it."""
    version, (_, tested) = _version(distribution), TRAINING_PACKAGES[distribution]
    if not version:
        raise Failure("not installed", _INSTALL)
    if tested and version != tested:
        raise Failure(f"{version}, needs {tested}", _INSTALL)
    return version


def check_package(distribution: str) -> str:
    """Checks that a package of the keyboard can be imported, and returns its version."""
    version = _version(distribution)
    if not version:
        raise Failure("not installed", "Run `pip install tff-keyboard`.")
    _import(KEYBOARD_PACKAGES[distribution][0])
    return version


def check_imports() -> str:
    """Checks that all packages of training can be imported."""
    with contextlib.suppress(Exception):  # the imports below report failures better
        quiet.import_tensorflow_federated()
    for module, _ in TRAINING_PACKAGES.values():
        _import(module)
    return "all packages"


def check_nothing_trains() -> str:
    """Reports that no package of training is installed."""
    return f"not installed, so this machine cannot train. To train: {extras.TO_TRAIN}"


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
    """Checks a connection to this machine."""
    with socket.socket() as server:
        try:
            server.bind(("127.0.0.1", 0))
            server.listen()
            socket.create_connection(server.getsockname(), timeout=5).close()
        except OSError as error:
            raise Failure(
                f"127.0.0.1 cannot be reached: {error.strerror or error}",
                "`play` and a cluster of one node need it. Bring up the loopback interface "
                "(`ip link set lo up`), or allow it in the sandbox.",
            ) from error
    return "127.0.0.1 answers"


def check_round() -> str:
    """Runs a TFF aggregation of the numbers of three clients."""
    import numpy as np
    import tensorflow_federated as tff

    from tff_keyboard.algorithms.client_packing.local_context import LocalContext

    @tff.federated_computation(tff.FederatedType(np.int32, tff.CLIENTS))
    def total(values: tff.Value) -> tff.Value:
        return tff.federated_sum(values)

    start = time.monotonic()
    total_of_clients = LocalContext().invoke(total, [1, 2, 4])
    if total_of_clients != 7:
        raise Failure(f"1 + 2 + 4 gave {total_of_clients}", _INSTALL)
    return f"three clients in {time.monotonic() - start:.1f} s"


def check_disk(directory: pathlib.Path) -> str:
    """Checks the free space and the permission to write at `directory`."""
    path = directory.absolute()
    existing = next(parent for parent in [path, *path.parents] if parent.exists())
    free = shutil.disk_usage(existing).free / 1e9
    if free < MIN_DISK_GB:
        raise Failure(
            f"{free:.1f} GB free, but {MIN_DISK_GB:g} GB are required",
            "Free some space, or keep runs elsewhere with --workdir.",
        )
    if not os.access(existing, os.W_OK):
        raise Failure(f"{existing} is read-only", "Pass a writable directory with --workdir.")
    return f"{free:.1f} GB free"


def check_memory() -> str:
    """Checks the available memory."""
    available = available_memory_gb()
    if available < MIN_MEMORY_GB:
        raise Failure(
            f"{available:.1f} GB available, but {MIN_MEMORY_GB:g} GB are required",
            "Close other programs, or set `execution.threads` = 1.",
        )
    return f"{available:.1f} GB available"


def available_memory_gb() -> float:
    """Returns GB (1e9 bytes) that the kernel and the limit of the container leave."""
    fields = dict(line.split(":", 1) for line in _MEMINFO.read_text().splitlines())
    available = int(fields["MemAvailable"].split()[0]) * 1024
    with contextlib.suppress(OSError, ValueError):  # no control group, or one without a limit
        limit = int((_CONTROL_GROUP / "memory.max").read_text())
        used = int((_CONTROL_GROUP / "memory.current").read_text())
        available = min(available, limit - used)
    return available / 1e9


def check_cores() -> str:
    """Returns the number of usable cores."""
    return f"{len(os.sched_getaffinity(0))} usable"


def check_data() -> str:
    """Checks the real corpora, which only tests need."""
    path = os.environ.get(DATA_VARIABLE, "")
    if not path:
        return "not set (only needed for tests on real corpora)"
    if not pathlib.Path(path).is_dir():
        raise Failure(
            f"{path!r} is not a directory", f"Set {DATA_VARIABLE} to the corpora, or unset it."
        )
    return path


def checks(workdir: pathlib.Path) -> list[Check]:
    """Returns all checks, the ones that import TensorFlow last; without training, only typing's."""
    problems = [
        Check("python", check_python),
        *(Check(name, functools.partial(check_package, name)) for name in KEYBOARD_PACKAGES),
        Check("localhost", check_localhost),
        Check("cores", check_cores),
    ]
    if not trains():
        return [*problems, Check("training", check_nothing_trains)]
    return [
        *problems,
        Check("platform", check_platform),
        *(Check(name, functools.partial(check_version, name)) for name in TRAINING_PACKAGES),
        Check("disk", lambda: check_disk(workdir)),
        Check("memory", check_memory),
        Check(DATA_VARIABLE, check_data),
        Check("imports", check_imports, "importing TensorFlow and TFF"),
        Check("a TFF round", check_round, "computing a round"),
    ]
