"""The file of real devices: one public key a line, 64 hex digits (`Device-Key`).

Without it a device trusts its server, which could surround it by devices of its own.
"""

import pathlib
import re

from tff_keyboard.storage.errors import UsageError


def read(path: pathlib.Path) -> frozenset[bytes]:
    """Returns the Ed25519 keys of a file, 32 bytes each.

    Raises:
      UsageError: If the file cannot be read, or a line is not a key.
    """
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}).") from None
    for number, line in enumerate(lines, 1):
        if not re.fullmatch("[0-9a-fA-F]{64}", line):
            raise UsageError(f"{path}, line {number}: must be a public key, 64 hex digits.")
    return frozenset(map(bytes.fromhex, lines))
