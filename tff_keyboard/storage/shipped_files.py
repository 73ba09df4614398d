"""Configs, studies and models that are installed together with the code.

They are in the root of a checkout. A wheel has them in a folder next to the packages (setup.py).
"""

import pathlib

_PACKAGES = pathlib.Path(__file__).resolve().parents[2]
_INSTALLED = _PACKAGES / "tff_keyboard_shipped"
ROOT = _INSTALLED if _INSTALLED.is_dir() else _PACKAGES
FOLDERS = ("configs", "models")


def model_folder(language: str) -> pathlib.Path:
    """Returns the name of the folder of a language's shipped model, for `locate`.

    Only "models/base", for English, has no language code.
    """
    return pathlib.Path("models", "base" if language == "en" else f"base_{language}")


def locate(path: pathlib.Path) -> pathlib.Path:
    """Returns `path`, or the shipped file of that name if `path` does not exist.

    Names of shipped files begin with one of `FOLDERS`, as in a checkout.
    """
    shipped = ROOT / path
    is_ours = path.parts[:1] and path.parts[0] in FOLDERS and shipped.exists()
    return shipped if is_ours and not path.exists() else path
