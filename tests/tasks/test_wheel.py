"""The wheel: what it installs, under which names, and that the command works from there.

In a clean environment of another Python it types, verifies and compares, without TensorFlow and in
170 MB, of which the models of six languages take 23 MB. This test needs Python 3.10, 3.12 or 3.13,
and an index of packages.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PARTS = (
    "tff_keyboard", "tff_keyboard_app", "tff_keyboard_fleet", "tff_keyboard_lab", "tflite_export",
    "tasks", "configs", "docs/results/recipes.toml", "models", "pyproject.toml", "setup.py",
    "README.md", "requirements.txt",
)  # fmt: skip
BUILD = "import setuptools.build_meta as build, sys; build.build_wheel(sys.argv[1])"
# What the console script does; the checkout must not be what is found.
COMMAND = """
import sys
from tff_keyboard_tasks import __main__ as console
assert console.__file__.startswith(sys.argv.pop(1)), console.__file__
console.main()
"""


OTHERS = ("3.10", "3.12", "3.13")
MAX_BYTES = 170e6  # of a light installation; without pip and the bytecode that Python adds
MAX_CPU_SECONDS = 4.0  # until `play` shows a strip; 1.2 on two busy cores


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Returns the wheel's file."""
    folder = tmp_path_factory.mktemp("wheel")
    for part in PARTS:
        if (ROOT / part).is_dir():
            leave_out = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / part, folder / "source" / part, ignore=leave_out)
        else:
            (folder / "source" / part).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / part, folder / "source" / part)
    command = [sys.executable, "-c", BUILD, str(folder)]
    subprocess.run(command, cwd=folder / "source", check=True, capture_output=True)
    (actual,) = folder.glob("*.whl")
    return actual


@pytest.fixture(scope="module")
def site(wheel):
    """Returns a folder with the content of the wheel."""
    with zipfile.ZipFile(wheel) as file:
        file.extractall(wheel.parent / "site")
    return wheel.parent / "site"


@pytest.mark.slow
def test_wheel_has_only_our_names(site):
    (info,) = site.glob("*.dist-info")
    assert {path.name for path in site.iterdir()} - {info.name} == {
        "tff_keyboard",
        "tff_keyboard_app",
        "tff_keyboard_fleet",
        "tff_keyboard_lab",
        "tff_keyboard_shipped",
        "tff_keyboard_tasks",
        "tflite_export",
    }
    assert "tff_keyboard_tasks.__main__:main" in (info / "entry_points.txt").read_text()
    for package, name in (("tff_keyboard", "tff_keyboard"), ("tasks", "tff_keyboard_tasks")):
        actual = {str(path.relative_to(site / name)) for path in (site / name).rglob("*.py")}
        whole = {str(p.relative_to(ROOT / package)) for p in (ROOT / package).rglob("*.py")}
        assert actual == whole
    assert list((site / "tff_keyboard_app").rglob("*.html"))
    assert list((site / "tff_keyboard").rglob("templates/page.html"))
    assert not list(site.rglob("test_*.py"))
    assert list((site / "tff_keyboard_app").rglob("*.txt"))
    assert {path.name for path in (site / "tff_keyboard_shipped").iterdir()} == {
        "configs",
        "docs",
        "models",
        "requirements.txt",
    }
    assert files(site / "tff_keyboard_shipped" / "docs") == {pathlib.Path("results/recipes.toml")}
    for shipped in ("configs", "models"):
        actual, whole = files(site / "tff_keyboard_shipped" / shipped), files(ROOT / shipped)
        assert actual == whole
        assert len(whole) > 10


def files(folder):
    return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments, says",
    [
        (["--help"], "Usage: tff-keyboard"),
        (["compare", "--help"], "--max-messages"),
        (["study", "--help"], "--workdir"),
    ],
)
def test_command_works_from_the_wheel(site, tmp_path, arguments, says):
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


def other_python(version):
    """Returns a Python of this version, from the PATH or from pyenv, or None."""
    pyenv = sorted(pathlib.Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for found in [*map(str, pyenv), shutil.which(f"python{version}")]:
        if (
            found
            and subprocess.run([found, "-m", "venv", "--help"], capture_output=True).returncode == 0
        ):
            return found
    return None


@pytest.fixture(scope="module", params=OTHERS)
def light(request, wheel, tmp_path_factory):
    """Returns a clean environment of another Python with only the wheel and its requirements."""
    python = other_python(request.param)
    if python is None:
        pytest.skip(f"there is no Python {request.param}")
    folder = tmp_path_factory.mktemp("light")
    subprocess.run([python, "-m", "venv", folder / "venv"], check=True, capture_output=True)
    pip = [folder / "venv" / "bin" / "pip", "--disable-pip-version-check"]
    asked = subprocess.run(
        [*pip, "download", "--no-deps", "--dest", folder, "tomli-w"],
        capture_output=True,
        check=False,
    )
    if asked.returncode:
        pytest.skip("no index of packages can be reached")
    subprocess.run([*pip, "install", "--quiet", "--only-binary", ":all:", wheel], check=True)
    return folder / "venv"


def console(light, folder, *arguments, typed=""):
    """Runs the console script in `folder`; also says what it took."""
    before = os.times()
    done = subprocess.run(
        [light / "bin" / "tff-keyboard", *map(str, arguments)],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        input=typed,
        capture_output=True,
        text=True,
        check=False,
    )
    after = os.times()
    seconds = after.children_user + after.children_system
    return done, seconds - before.children_user - before.children_system


@pytest.mark.slow
def test_a_light_installation_types_and_judges(light, tmp_path):
    (tmp_path / "texts").write_text("see you today\nwhat are you doing\n" * 60)
    one, other = (f"models/{name}/keyboard.tflite" for name in ("messages", "base"))
    text, out = "--text=texts", "--out=compared"
    for arguments, says in [
        (["doctor"], "cannot train"),
        (["verify", one], "opens and suggests"),
        (["compare", one, other, one.replace(".tflite", ".ngram"), text, out], "top-3"),
    ]:
        done, _ = console(light, tmp_path, *arguments)
        assert done.returncode == 0, (arguments, done.stderr)
        assert says in done.stdout
    done, seconds = console(light, tmp_path, "play", one, "--terminal", typed="see you tod")
    assert done.returncode == 0, done.stderr
    assert "you" in done.stdout
    assert seconds < MAX_CPU_SECONDS


@pytest.mark.slow
def test_a_light_installation_is_small_and_says_what_it_lacks(light, tmp_path):
    (site_packages,) = light.glob("lib/python*/site-packages")
    of_pip = ("pip", "setuptools", "pkg_resources", "_distutils_hack")
    installed = [path for path in site_packages.iterdir() if not path.name.startswith(of_pip)]
    content = [file for path in installed for file in [path, *path.rglob("*")] if file.is_file()]
    total = sum(file.stat().st_size for file in content if file.suffix != ".pyc")
    assert 10e6 < total < MAX_BYTES
    for package in ("tensorflow", "tensorflow_federated", "scipy", "matplotlib"):
        assert not (site_packages / package).exists()
    (tmp_path / "people.tsv").write_text("".join(f"{n % 30}\tsee you {n}\n" for n in range(150)))
    done, _ = console(light, tmp_path, "prepare", "people.tsv", "--out=store")
    assert done.returncode == 0, done.stderr
    few = "--set=train.clients_per_round=2"
    done, _ = console(light, tmp_path, "train", "--store=store", "--workdir=run", few)
    assert done.returncode == 4
    (requirements,) = re.findall(r"pip install --no-deps -r (\S+) ", done.stderr.splitlines()[-1])
    assert pathlib.Path(requirements).read_text() == (ROOT / "requirements.txt").read_text()
