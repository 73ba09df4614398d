"""Records the environment of a run: package versions, machine, commit and command."""

import contextlib
import datetime
import importlib.metadata
import os
import pathlib
import platform
import subprocess
import sys
from typing import Any

import tff_keyboard

_PACKAGES = (
    "tensorflow", "tensorflow-federated", "tensorflow-privacy", "tensorflow-text", "dp-accounting",
    "numpy", "grpcio", "protobuf", "jax", "jaxlib",
)  # fmt: skip


def describe() -> dict[str, Any]:
    """Returns package versions, Python version, platform, commit and command, ready for JSON.

    `commit` is None outside a git checkout, and ends in `+changes` if tracked files are modified.
    """
    packages = {"tff-keyboard": tff_keyboard.__version__}
    for name in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            packages[name] = importlib.metadata.version(name)
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "packages": packages,
        "commit": _commit(),
        "command": [pathlib.Path(sys.argv[0]).name, *sys.argv[1:]],
        "started_utc": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    }


def _commit() -> str | None:
    """Returns the commit of the checkout, with "+changes" if files differ; None without git."""
    root = pathlib.Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None  # an installed package: a repository around it is another project
    try:
        head = _git(root, "rev-parse", "HEAD")
        changes = _git(root, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return None
    return head + ("+changes" if changes else "")


def _git(root: pathlib.Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
