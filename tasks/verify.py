"""Checks an export that somebody handed over: whole, fitting, and signed.

tff-keyboard verify keyboard.tflite --public-key=release.pub.pem

Every file is compared with the manifest, the model is opened, and its shapes are checked. With a
public key the signature must be right, or the exit code is 5. Without one the hashes find damage,
but not an attack.
"""

import dataclasses
import pathlib
from typing import Annotated

from tasks.options import TaskOptions, Words


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """What the task can be told."""

    model: Annotated[pathlib.Path, Words("a .tflite file")]
    public_key: Annotated[
        pathlib.Path | None, "PEM file of the Ed25519 key that must have signed the export."
    ] = None


def run(options: Options) -> None:
    """Checks and prints what was found."""
    from tflite_export import interpreters, verification

    interpreters.import_quietly()
    for line in verification.verify(options.model, options.public_key):
        print(line)
