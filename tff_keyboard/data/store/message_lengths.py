"""How many words each message of a store has, in a file of its own, so that no text is read.

Rounds of many clients are planned from lengths alone (who is computed with whom, how much a round
is), on the machine that drives a cluster, too.
"""

import hashlib
import io
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from tff_keyboard.storage import errors, names


def open_lengths(directory: pathlib.Path, card: Mapping[str, Any]) -> np.ndarray:
    """Words of each message, [messages] int32 in the order of the rows; not read into memory.

    Raises `DataError` if it is not the array that the card records.
    """
    path = directory / names.MESSAGE_LENGTHS
    try:
        lengths = _mapped(path)
        is_whole = hashlib.sha256(lengths.data).hexdigest() == card["lengths_sha256"]
    except (OSError, ValueError, KeyError):
        is_whole = False
    if not is_whole:
        raise errors.DataError(
            f"{path}: was changed since `prepare`. Run `tff-keyboard prepare` again with "
            "--overwrite."
        )
    return lengths


def _mapped(path: pathlib.Path) -> np.ndarray:
    """The array of a `.npy` file as `prepare` writes it: of one kind, so its head is known.

    NumPy would read the head as Python, which fails in many ways on one that was damaged.
    """
    start = len(_head(0))
    head = _head((path.stat().st_size - start) // 4)
    with path.open("rb") as file:
        if file.read(len(head)) != head:
            raise ValueError("another head than ours")
    return np.asarray(np.memmap(path, "<i4", "r", start))  # slices of it are cheap views


def _head(size: int) -> bytes:
    stream = io.BytesIO()
    array = {"descr": "<i4", "fortran_order": False, "shape": (size,)}
    np.lib.format.write_array_header_1_0(stream, array)  # type: ignore[no-untyped-call]
    return stream.getvalue()
