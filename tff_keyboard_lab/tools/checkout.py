"""Names the commit of a measurement."""

import subprocess


def commit() -> str | None:
    """Returns the short name of the checked-out commit, or None outside a repository."""
    result = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return result.stdout.strip() or None
