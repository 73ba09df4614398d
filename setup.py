"""The packages of the wheel; all else is in pyproject.toml.

`tasks` is no name for site-packages: that folder is installed as `tff_keyboard_tasks`. `configs`
and `models` are installed in `tff_keyboard_shipped` (tff_keyboard/storage/shipped_files.py).
"""

import setuptools

NAMES = {
    "tasks": "tff_keyboard_tasks",
    "configs": "tff_keyboard_shipped.configs",
    "models": "tff_keyboard_shipped.models",
}

found = setuptools.find_packages(include=["tff_keyboard*", "tflite_export*", "tasks*"])
named = [name.split(".", 1) for name in [*found, "configs", "models"]]
setuptools.setup(
    packages=[".".join([NAMES.get(top, top), *below]) for top, *below in named],
    package_dir={name: folder for folder, name in NAMES.items()},
)
