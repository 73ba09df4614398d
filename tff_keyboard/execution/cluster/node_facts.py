"""Facts about a node that can change its results, compared when the node joins a cluster."""

import hashlib
import importlib.metadata
import os
import pathlib
import platform
from collections.abc import Mapping

import tff_keyboard
from tff_keyboard.execution.cluster import security

STORES_VARIABLE = "TFF_KEYBOARD_STORES"
PACKAGES = ("tensorflow", "tensorflow-federated", "tensorflow-text", "numpy", "protobuf")
# These may differ with `execution.cluster.allow_nondeterminism`. No other fact may differ.
_MAY_DIFFER = ("code", "processor", *PACKAGES)
_CPU_FACTS = pathlib.Path("/proc/cpuinfo")
CORES = "cores"  # may differ, because results do not depend on it
_VECTOR_FLAGS = ("avx", "fma", "amx", "sse4")
_ONEDNN = ("ONEDNN_MAX_CPU_ISA", "TF_ENABLE_ONEDNN_OPTS")


def facts(files: Mapping[str, str]) -> dict[str, str]:
    """Returns facts about this process and machine.

    They are versions, a digest of this package's code, the instruction set and oneDNN settings
    (which determine the order of floating-point sums), whether other users can enter the directory
    of Ray, and a digest of each required file.

    Args:
      files: Name -> path of the required files. The digest of a file that `place_of` does not find
        is "missing".
    """
    facts = {"python": platform.python_version()}
    facts |= {name: _version(name) for name in ("ray", *PACKAGES)}
    facts["code"] = _code_digest()
    facts["processor"] = _instruction_set()
    is_open = security.directory_open_to_others() is not None
    facts["directory of Ray"] = "open to other users" if is_open else "closed"
    facts[CORES] = str(len(os.sched_getaffinity(0)))
    return facts | {name: _digest(place_of(path)) for name, path in files.items()}


def differences(driver: Mapping[str, str], node: Mapping[str, str], *, lenient: bool) -> list[str]:
    """Returns the differences that exclude a node, one phrase for each.

    Args:
      driver: The facts of the driver.
      node: The facts of the node.
      lenient: Whether differences that only change the last bits of results are allowed.
    """
    return [
        f"{name}: {_short(node.get(name, 'unknown'))} instead of {_short(value)}"
        for name, value in driver.items()
        if name != CORES and node.get(name) != value and not (lenient and name in _MAY_DIFFER)
    ]


def place_of(path: str | os.PathLike[str]) -> pathlib.Path:
    """Returns the path on this machine of a file or directory of the driver.

    This is the same path if it exists. Otherwise it is the path of the same name in the directory
    in TFF_KEYBOARD_STORES: `data/sms/data_card.json` becomes `sms/data_card.json` there.
    """
    path = pathlib.Path(path)
    stores = os.environ.get(STORES_VARIABLE)
    if path.exists() or not stores:
        return path
    names = path.parts[-2:] if path.suffix else path.parts[-1:]
    return pathlib.Path(stores, *names)


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "missing"


def _code_digest() -> str:
    root = pathlib.Path(tff_keyboard.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _instruction_set() -> str:
    """Returns the vector extensions of the processor, and the settings that limit their use."""
    lines = _CPU_FACTS.read_text().splitlines() if _CPU_FACTS.exists() else []
    flags = next((line.partition(":")[2] for line in lines if line.startswith("flags")), "")
    extensions = sorted(flag for flag in flags.split() if flag.startswith(_VECTOR_FLAGS))
    switches = [f"{name}={os.environ[name]}" for name in _ONEDNN if name in os.environ]
    return " ".join([*extensions, *switches])


def _digest(path: pathlib.Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return "missing"


def _short(value: str) -> str:
    """Returns a value for a message; the beginning and a digest if it is long."""
    if len(value) <= 24:
        return value
    return f"{value[:12]}.. ({hashlib.sha256(value.encode()).hexdigest()[:8]})"
