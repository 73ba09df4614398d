"""The packages of the wheel; all else is in pyproject.toml.

`tasks` is no name for site-packages: that folder is installed as `tff_keyboard_tasks`. `configs`,
`models`, requirements.txt and the table of results that `advise` reads are installed in
`tff_keyboard_shipped`, where `tff_keyboard/storage/shipped_files.py` finds them.
"""

from typing import Any

import setuptools
from setuptools.command import build_py

NAMES = {
    "tasks": "tff_keyboard_tasks",
    ".": "tff_keyboard_shipped",
    "configs": "tff_keyboard_shipped.configs",
    "docs/results": "tff_keyboard_shipped.docs.results",
    "models": "tff_keyboard_shipped.models",
}


class BuildPy(build_py.build_py):
    """Takes no code along from the root, such as this file."""

    def find_package_modules(self, package: str, package_dir: str) -> list[Any]:
        modules: list[Any] = super().find_package_modules(package, package_dir)
        return [] if package == NAMES["."] else modules


folders = setuptools.find_packages(
    include=["tff_keyboard*", "tflite_export*", "tasks*"], exclude=["*.tests", "*.tests.*"]
)
# The name of each package in the checkout: its top folder, and the rest
packages = [[name] if name in NAMES else name.split(".", 1) for name in sorted({*folders, *NAMES})]
setuptools.setup(
    packages=[".".join([NAMES.get(top, top), *below]) for top, *below in packages],
    package_dir={name: folder for folder, name in NAMES.items()},
    cmdclass={"build_py": BuildPy},
)
