"""What `make` would run to install, with an index and without."""

import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")


def commands(*words):
    """The commands of a target, one a line; any program that is there stands for uv."""
    stand_in = shutil.which("true")
    line = ["make", "--no-print-directory", "--dry-run", f"UV={stand_in}", *words]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.replace("\\\n", " ").replace(stand_in, "uv").splitlines()


def test_with_an_index_the_lock_is_what_is_installed():
    assert commands("install", "EXTRAS=--extra cluster") == [
        "uv sync --frozen --quiet --extra cluster"
    ]


def test_offline_nothing_asks_an_index():
    found = commands("install", "OFFLINE=folder")
    assert all("--offline" in command for command in found)
    (packages,) = [command for command in found if "-r folder/requirements.txt" in command]
    assert {"--no-index", "--no-deps", "--require-hashes"} <= set(packages.split())
    assert "--find-links folder" in packages
    assert "--no-build-isolation" in found[-1]
    runs = [command for command in commands("lint", "OFFLINE=folder") if "uv run" in command]
    assert runs
    assert all("--no-sync" in command for command in runs)
    assert all("--no-sync" not in command for command in commands("lint"))


def test_a_wheelhouse_has_what_is_locked_and_uv_itself():
    found = commands("wheelhouse", "WHEELS=folder", "EXTRAS=--extra cluster")
    (export,) = [command for command in found if "uv export" in command]
    assert {"--frozen", "--extra", "cluster", "folder/requirements.txt"} <= set(export.split())
    (download,) = [command for command in found if "pip download" in command]
    assert {"--no-deps", "--require-hashes"} <= set(download.split())
    assert "-r folder/requirements.txt -r requirements-uv.txt" in " ".join(download.split())


def test_the_site_is_built_of_hashed_packages_and_strictly():
    _, packages, build = commands("docs")
    assert {"--require-hashes", "requirements-docs.txt"} <= set(packages.split())
    assert "--strict" in build
    assert "-q" not in build  # hides the warnings that --strict counts
