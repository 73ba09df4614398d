"""The wheel: what it installs, under which names, and that the command works from there."""

import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PARTS = ("tff_keyboard", "tflite_export", "tasks", "pyproject.toml", "setup.py", "README.md")
BUILD = "import setuptools.build_meta as build, sys; build.build_wheel(sys.argv[1])"
# What the console script does; the checkout must not be what is found.
COMMAND = """
import sys
from tff_keyboard_tasks import __main__ as console
assert console.__file__.startswith(sys.argv.pop(1)), console.__file__
console.main()
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with the content of the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    for part in PARTS:
        if (ROOT / part).is_dir():
            leave_out = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / part, folder / "source" / part, ignore=leave_out)
        else:
            shutil.copy(ROOT / part, folder / "source")
    command = [sys.executable, "-c", BUILD, str(folder)]
    subprocess.run(command, cwd=folder / "source", check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(folder / "site")
    return folder / "site"


@pytest.mark.slow
def test_its_names_are_our_own(site):
    (info,) = site.glob("*.dist-info")
    assert {path.name for path in site.iterdir()} - {info.name} == {
        "tff_keyboard",
        "tff_keyboard_tasks",
        "tflite_export",
    }
    assert "tff_keyboard_tasks.__main__:main" in (info / "entry_points.txt").read_text()
    for package, name in (("tff_keyboard", "tff_keyboard"), ("tasks", "tff_keyboard_tasks")):
        found = {str(path.relative_to(site / name)) for path in (site / name).rglob("*.py")}
        whole = {str(p.relative_to(ROOT / package)) for p in (ROOT / package).rglob("*.py")}
        assert found == whole
    assert list((site / "tflite_export").glob("*/*.html"))
    assert list((site / "tflite_export").glob("*/*.txt"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments, says",
    [
        (["--help"], "Usage: tff-keyboard"),
        (["compare", "--help"], "--fail-if-worse"),
        (["study", "--help"], "--workdir"),
    ],
)
def test_the_command_works_from_it(site, tmp_path, arguments, says):
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, str(site), *arguments],
        env=os.environ | {"PYTHONPATH": str(site)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert says in done.stdout
