"""The packages of the wheel; all else is in pyproject.toml.

`tasks` is no name for site-packages: that folder is installed as `tff_keyboard_tasks`.
"""

import re

import setuptools

found = setuptools.find_packages(include=["tff_keyboard*", "tflite_export*", "tasks*"])
setuptools.setup(
    packages=[re.sub(r"^tasks\b", "tff_keyboard_tasks", name) for name in found],
    package_dir={"tff_keyboard_tasks": "tasks"},
)
