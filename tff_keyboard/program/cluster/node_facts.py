"""What the bits that a node computes depend on, and what it needs: compared when it joins."""

import hashlib
import importlib.metadata
import os
import pathlib
import platform
from collections.abc import Mapping

import tff_keyboard

STORES_VARIABLE = "TFF_KEYBOARD_STORES"
PACKAGES = ("tensorflow", "tensorflow-federated", "tensorflow-text", "numpy", "protobuf")
# What may differ with `execution.cluster.allow_other_bits`; the rest would not work at all.
_MAY_DIFFER = ("code", "processor", *PACKAGES)
_CPU_FACTS = pathlib.Path("/proc/cpuinfo")
_VECTOR_FLAGS = ("avx", "fma", "amx", "sse4")
_ONEDNN = ("ONEDNN_MAX_CPU_ISA", "TF_ENABLE_ONEDNN_OPTS")


def facts(files: Mapping[str, str]) -> dict[str, str]:
    """Facts of this process and machine.

    Versions; a digest of our code; the instruction set and the switches of oneDNN, on which the
    order of floating-point sums depends; a digest of each of `files`, name -> path, that must be
    everywhere: "missing" for one that is not where `place_of` says.
    """
    found = {"python": platform.python_version()}
    found |= {name: _version(name) for name in ("ray", *PACKAGES)}
    found["code"] = _code_digest()
    found["processor"] = _instruction_set()
    return found | {name: _digest(place_of(path)) for name, path in files.items()}


def differences(own: Mapping[str, str], other: Mapping[str, str], *, lenient: bool) -> list[str]:
    """What keeps a node from being used, a phrase each."""
    return [
        f"{name}: {_short(other.get(name, 'unknown'))} instead of {_short(value)}"
        for name, value in own.items()
        if other.get(name) != value and not (lenient and name in _MAY_DIFFER)
    ]


def place_of(path: str | os.PathLike[str]) -> pathlib.Path:
    """Where a path of the driver's is on this machine.

    The same path where it exists, else one of the same name in the directory that
    TFF_KEYBOARD_STORES names: `data/sms/data_card.json` is looked for as `sms/data_card.json`.
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
    lines = _CPU_FACTS.read_text().splitlines() if _CPU_FACTS.exists() else []
    flags = next((line.partition(":")[2] for line in lines if line.startswith("flags")), "")
    found = sorted(flag for flag in flags.split() if flag.startswith(_VECTOR_FLAGS))
    switches = [f"{name}={os.environ[name]}" for name in _ONEDNN if name in os.environ]
    return " ".join([*found, *switches])


def _digest(path: pathlib.Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return "missing"


def _short(value: str) -> str:
    if len(value) <= 24:
        return value
    return f"{value[:12]}.. ({hashlib.sha256(value.encode()).hexdigest()[:8]})"
