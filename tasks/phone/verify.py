"""Checks that an export is complete, unchanged and signed.

tff-keyboard verify keyboard.tflite --public-key=release.pub.pem

With --public-key the signature must be valid, or the exit code is 5. Then every file is compared
with its hash in the manifest. Last, the model is opened in a process of its own; if it crashes the
interpreter, the exit code is 5. Without a key the hashes detect damage, but not an attack.
"""

import dataclasses
import pathlib
from typing import Annotated

from tff_keyboard.command_line.options import Positional, TaskOptions
from tff_keyboard.storage import shipped_files


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """Flags of `verify`."""

    model: Annotated[pathlib.Path, Positional("a .tflite file")]
    public_key: Annotated[
        pathlib.Path | None, "PEM file with the Ed25519 public key of the signer."
    ] = None


def run(options: Options) -> None:
    """Checks the export and prints the results."""
    from tflite_export.gate import verification

    print("\n".join(verification.verify(shipped_files.locate(options.model), options.public_key)))
