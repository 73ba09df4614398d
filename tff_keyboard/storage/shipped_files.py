"""Files that come with the code, wherever it was installed: configs, studies and models.

They lie in the root of a checkout, and in a wheel in a folder beside the packages (setup.py).
"""

import pathlib

_PACKAGES = pathlib.Path(__file__).resolve().parents[2]
_INSTALLED = _PACKAGES / "tff_keyboard_shipped"
ROOT = _INSTALLED if _INSTALLED.is_dir() else _PACKAGES
FOLDERS = ("configs", "models")


def found(path: pathlib.Path) -> pathlib.Path:
    """The path as given; where nothing is there, the shipped file of that name, if there is one.

    Shipped ones begin with one of `FOLDERS`, as in a checkout.
    """
    shipped = ROOT / path
    is_ours = path.parts[:1] and path.parts[0] in FOLDERS and shipped.exists()
    return shipped if is_ours and not path.exists() else path
