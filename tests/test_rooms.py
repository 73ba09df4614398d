"""A folder is seen at a glance: few files on one level, few packages, no loose module."""

import collections
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parent.parent
MOST_FILES, MOST_PACKAGES = 15, 18


def shipped():
    """What git has, as paths from the root; what lies in a checkout besides does not count."""
    git = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate"]
    found = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip("no checkout of git")
    return [pathlib.Path(name) for name in found.stdout.splitlines() if (ROOT / name).exists()]


def test_no_folder_is_full():
    """Files on one level, folders not counted; the root's are what tools look for there."""
    found = collections.Counter(str(path.parent) for path in shipped() if path.parent.name)
    full = {folder: n for folder, n in found.items() if n > MOST_FILES}
    assert not full


def test_the_library_has_few_packages_and_no_loose_module():
    beside = {path.parts[1] for path in shipped() if path.parts[0] == "tff_keyboard"}
    assert {name for name in beside if name.endswith(".py")} == {"__init__.py"}
    assert len(beside - {"__init__.py"}) <= MOST_PACKAGES


def test_what_tests_share_lies_in_support():
    loose = {path.name for path in shipped() if path.parent == pathlib.Path("tests")}
    assert not [name for name in loose if not name.startswith(("test_", "conftest"))]
