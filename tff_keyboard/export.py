"""Exports a trained model to a checked `.tflite` file.

`tflite_export` defines the names, so this module belongs to the layer above it (`pyproject.toml`).
"""

from typing import Any

import tff_keyboard

__all__, _find, __dir__ = tff_keyboard.lazy(__name__)


def __getattr__(name: str) -> Any:
    import tflite_export  # noqa: F401 (import-linter does not read the stub, but this line)

    return _find(name)
