"""Checks an export that somebody handed over: whole, fitting, and signed.

tff-keyboard verify keyboard.tflite --public-key=release.pub.pem

With a public key the signature must be right, or the exit code is 5. Then every file is compared
with the manifest. Only then is the model opened, in a process of its own: one that crashes it is
exit code 5, too. Without a key the hashes find damage, but not an attack.
"""

import dataclasses
import pathlib
from typing import Annotated

from ..options import TaskOptions, Words
from tff_keyboard.storage import shipped_files


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """What the task can be told."""

    model: Annotated[pathlib.Path, Words("a .tflite file")]
    public_key: Annotated[
        pathlib.Path | None, "PEM file of the Ed25519 key that must have signed the export."
    ] = None


def run(options: Options) -> None:
    """Checks and prints what was found."""
    from tflite_export.gate import verification

    print("\n".join(verification.verify(shipped_files.found(options.model), options.public_key)))
