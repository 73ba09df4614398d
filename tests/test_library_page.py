"""The examples of docs/library.md run in order as one script and use public names only."""

import json
import math
import os
import pathlib
import re
import subprocess
import sys

import pytest

import tff_keyboard as tk

ROOT = pathlib.Path(__file__).parent.parent
BLOCKS = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/library.md").read_text(), re.M | re.S)


def test_the_examples_use_public_names_only():
    assert BLOCKS
    for block in BLOCKS:
        for namespace, name in re.findall(r"\btk\.(\w+)\.(\w+)", block):
            assert name in tk.SURFACE[namespace]


# Runs after the examples. Prints the weights' sizes, rejected updates and child processes as JSON.
THEN = """
import json, os
import numpy as np
from tests.support.processes import processes_below
sizes = [float(np.abs(x).max()) for x in process.get_model_weights(state).trainable]
below = processes_below.descendants(os.getpid())
refused = int(metrics["finalizer"]["update_non_finite"])
print(json.dumps({"sizes": sizes, "refused": refused, "processes": below}))
"""


@pytest.mark.slow
def test_the_examples_run_as_a_script_and_leave_no_process(tmp_path):
    """`capture_output` would wait for any process that keeps the pipes open."""
    ran = subprocess.run(
        [sys.executable, "-c", "\n".join([*BLOCKS, THEN])],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    clients, recall, *lines, last_line = ran.stdout.splitlines()
    assert clients == "3 clients in the last round"
    assert re.fullmatch(r"top-3 recall [\d.]+%, 95 % interval [\d.]+% to [\d.]+%", recall)
    assert "'See you la' ['later']" in lines
    assert (tmp_path / "my_run" / "model" / "weights.npz").is_file()
    assert (tmp_path / "keyboard.tflite").is_file()
    state = json.loads(last_line)
    assert all(math.isfinite(size) for size in state["sizes"])
    assert any(size > 0 for size in state["sizes"])
    assert not state["refused"]
    assert not state["processes"]
