"""The core works if the satellites are deleted."""

import pathlib
import shutil
import subprocess
import sys

import pytest

from tests.support.console import ROOT

SATELLITES = ("tff_keyboard_app", "tff_keyboard_fleet", "tff_keyboard_lab", "libcifg")


def copy_of_the_core(folder):
    """A copy of the checkout, from which the satellites are missing."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    for name in listed:
        path = pathlib.Path(name)
        if path.parts[0] not in SATELLITES:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, folder / path)
    subprocess.run(["git", "init", "-q", folder], check=True)
    return folder


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.timeout(2400)
@pytest.mark.skipif(not (ROOT / "tff_keyboard_lab").is_dir(), reason="this is that copy")
@pytest.mark.parametrize("options", [["--collect-only"], []], ids=["imports", "all"])
def test_the_quick_tests_of_the_core_pass_without_satellites(options, tmp_path):
    copy = copy_of_the_core(tmp_path / "core")
    # An editable install finds the packages of the checkout, here and in every child process.
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(
        "import sys\nsys.meta_path[:] = [f for f in sys.meta_path if 'Editable' not in repr(f)]\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [*command, *options, "-m", "not slow", "--ignore=tests/test_links.py", "tests"],
        cwd=copy,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(tmp_path),
            "PYTHONPATH": f"{tmp_path}/site:{copy}",
        },
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout[-3000:]
