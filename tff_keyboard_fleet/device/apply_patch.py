"""Applies a model delta to older weights: `python -m tff_keyboard_fleet.device.apply_patch`.

It runs in a process of its own, as training does, so that NumPy and the arrays leave memory when it
ends.
"""

import pathlib
import subprocess
import sys

from tff_keyboard.host import children
from tff_keyboard.storage import files
from tff_keyboard.storage.errors import DataError

_SECONDS = 120.0


def run_in_child(old: pathlib.Path, change: pathlib.Path, new: pathlib.Path) -> bool:
    """Writes the new weights. Returns False if the delta is not valid, or not for these weights."""
    command = children.python_module(__name__, str(old), str(change), str(new))
    try:
        return not subprocess.run(command, capture_output=True, timeout=_SECONDS).returncode
    except subprocess.TimeoutExpired:
        return False


def main(old: str, change: str, new: str) -> int:
    """Returns the exit code: 1 if the delta cannot be applied."""
    from tff_keyboard_fleet.wire import model_patch

    delta = files.read_bytes(pathlib.Path(change))
    if not delta.startswith(model_patch.MAGIC):
        return 1
    try:
        weights = model_patch.apply(files.read_bytes(pathlib.Path(old)), delta)
    except DataError:
        return 1
    files.write_atomically(pathlib.Path(new), [weights], mode=files.OWNER_ONLY)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
