"""The circumstances of a measurement, first of all its commit."""

import datetime
import os
import platform
import subprocess


def commit() -> str | None:
    """Returns the short name of the checked-out commit, or None outside a repository."""
    result = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return result.stdout.strip() or None


def circumstances() -> dict[str, object]:
    """Returns date, commit, machine and load of a measurement that begins."""
    return {
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs",
        "load_before": os.getloadavg()[0],
    }
