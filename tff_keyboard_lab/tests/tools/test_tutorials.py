"""Tutorials: the runner of their cells, and each of them from a clean state."""

import pathlib
import re
import subprocess
import sys

import pytest

import tff_keyboard as tk
from tff_keyboard_lab.tools import tutorials

PATHS = sorted(tutorials.FOLDER.glob("*.py"))
SOURCE = """# not a cell
# %% [markdown]
# # A title
#
# Prose *here*.
# %%
import os, subprocess
x = 3
print("printed", flush=True)
assert not subprocess.run(["echo", "by a program"]).returncode
os.listdir(".")
# %%
import matplotlib.pyplot as plt
plt.figure()
def fail(times):
    return 12 // times
fail(x)
# %%
None
"""


def run(folder, source, name="lesson"):
    path = folder / f"{name}.py"
    path.write_text(source)
    command = [
        sys.executable,
        "-m",
        "tff_keyboard_lab.tools.tutorials",
        str(path),
        f"--out={folder / 'pages'}",
    ]
    return subprocess.run(command, cwd=tutorials.ROOT, capture_output=True, text=True, check=False)


def test_a_page_has_prose_code_output_and_pictures(tmp_path):
    ran = run(tmp_path, SOURCE)
    assert ran.returncode == 0, ran.stderr
    prose, *blocks = re.split(r"\n\n(?=```|!)", (tmp_path / "pages/lesson.md").read_text())
    assert prose == "# A title\n\nProse *here*."
    code = [block for block in blocks if block.startswith("```python\n")]
    assert code[1].splitlines()[1] == "import matplotlib.pyplot as plt"
    others = [block for block in blocks if block not in code]
    assert others == [
        "```text\nprinted\nby a program\n[]\n```",  # in an empty folder
        "```text\n4\n```",
        "![picture 1](lesson_1.png)",
    ]
    assert (tmp_path / "pages/lesson_1.png").read_bytes().startswith(b"\x89PNG")


def test_an_error_fails_with_file_and_cell_and_without_a_page(tmp_path):
    ran = run(tmp_path, SOURCE.replace("fail(x)", "fail(0)"))
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1] == f"{tmp_path}/lesson.py: cell 3, from line 13, failed."
    assert f'{tmp_path}/lesson.py", line 16, in fail' in ran.stderr
    assert "ZeroDivisionError" in ran.stderr
    assert not (tmp_path / "pages/lesson.md").exists()


def test_a_cell_that_leaves_python_fails_too(tmp_path):
    ran = run(tmp_path, "# %%\nraise SystemExit(0)\n")
    assert ran.returncode == 1
    assert "cell 1" in ran.stderr


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_code_uses_what_is_promised(path):
    code = [cell for cell in tutorials.cells(path.read_text()) if not cell.is_prose]
    assert code
    for cell in code:
        for namespace, name in re.findall(r"\btk\.(\w+)\.(\w+)", cell.text):
            assert name in tk.SURFACE[namespace]
        for private in ("tff_keyboard.", "tflite_export", "from tff_keyboard", "tasks."):
            assert private not in cell.text


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_tutorial_runs(path, tmp_path):
    tutorials.main([str(path), f"--out={tmp_path}"])
    page = (tmp_path / f"{path.stem}.md").read_text()
    assert page.startswith("# ")
    pictures = re.findall(r"!\[.*\]\((.*)\)", page)
    assert pictures
    for picture in pictures:
        assert pathlib.Path(tmp_path, picture).stat().st_size > 5_000
