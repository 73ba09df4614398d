"""Which commit a measurement is of."""

import subprocess


def commit() -> str | None:
    """The short name of the commit that is checked out here; None outside a repository."""
    result = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return result.stdout.strip() or None
