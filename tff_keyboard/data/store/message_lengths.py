"""How many words each message of a store has, in a file of its own, so that no text is read.

Rounds of many clients are planned from lengths alone (who is computed with whom, how much a round
is), on the machine that drives a cluster, too.
"""

from __future__ import annotations

import hashlib
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from tff_keyboard.storage import errors, names


def open_lengths(directory: pathlib.Path, card: Mapping[str, Any]) -> np.ndarray | None:
    """Words of each message, [messages] int32 in the order of the rows; not read into memory.

    Returns:
      The array; None for a store that was prepared before there was one.

    Raises:
      DataError: It is not the array that the card records.
    """
    if names.MESSAGE_LENGTHS not in card["file_bytes"]:
        return None
    path = directory / names.MESSAGE_LENGTHS
    try:
        lengths = np.asarray(np.load(path, mmap_mode="r"))  # slices of it are cheap views
        is_whole = hashlib.sha256(lengths.data).hexdigest() == card["lengths_sha256"]
    except (OSError, ValueError, KeyError):
        is_whole = False
    if not is_whole:
        raise errors.DataError(
            f"{path}: was changed since `prepare`. Run `tff-keyboard prepare` again with "
            "--overwrite."
        )
    return lengths
