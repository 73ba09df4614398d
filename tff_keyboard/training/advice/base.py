"""The shipped general model of a language, which trainings on little text start from."""

import pathlib

from tff_keyboard.storage import shipped_files

_ENGLISH = "models/base"


def base_of(language: str) -> str | None:
    """Returns the directory of a language's shipped model, or None if there is none.

    `tff_keyboard_lab/tools/base_model.py` builds them. Only "models/base" has no language code.
    """
    path = _ENGLISH if language == "en" else f"{_ENGLISH}_{language}"
    return path if shipped_files.found(pathlib.Path(path)).exists() else None
