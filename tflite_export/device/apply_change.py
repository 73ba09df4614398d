"""Makes weights of older ones and what changed: `python -m tflite_export.device.apply_change`.

In a process of its own, whose NumPy and arrays go when it ends; as training does.
"""

import pathlib
import subprocess
import sys

from tff_keyboard.storage import files
from tff_keyboard.storage.errors import DataError

_SECONDS = 120.0


def run_in_child(old: pathlib.Path, change: pathlib.Path, new: pathlib.Path) -> bool:
    """Writes the new weights; False: the change is none, or not of these weights."""
    command = [sys.executable, "-m", __name__, str(old), str(change), str(new)]
    try:
        return not subprocess.run(command, capture_output=True, timeout=_SECONDS).returncode
    except subprocess.TimeoutExpired:
        return False


def main(old: str, change: str, new: str) -> int:
    """The exit code: 1 if the change cannot be applied."""
    from tff_keyboard.wire import model_delta

    given = files.read_bytes(pathlib.Path(change))
    if not given.startswith(model_delta.MAGIC):
        return 1
    try:
        made = model_delta.apply(files.read_bytes(pathlib.Path(old)), given)
    except DataError:
        return 1
    files.write_atomically(pathlib.Path(new), [made], mode=files.OWNER_ONLY)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
