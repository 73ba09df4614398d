"""The examples of docs/library.md, as the page shows them, and what they promise of processes."""

import json
import math
import pathlib
import re
import subprocess
import sys

import pytest

import tff_keyboard as tk
from tools import process_tree

ROOT = pathlib.Path(__file__).parent.parent
BLOCKS = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/library.md").read_text(), re.M | re.S)
MOST_LINES = 10  # without imports


def test_an_example_is_short_and_uses_what_is_promised():
    assert len(BLOCKS) == 5
    for block in BLOCKS:
        lines = [line for line in block.splitlines() if line and not line.startswith("import ")]
        assert len(lines) <= MOST_LINES
        for namespace, name in re.findall(r"\btk\.(\w+)\.(\w+)", block):
            assert name in tk.SURFACE[namespace]


# What the test asks once the examples have run, and who works for the script then.
THEN = """
import json, os
import numpy as np
from tools import process_tree
sizes = [float(np.abs(x).max()) for x in process.get_model_weights(state).trainable]
below = process_tree.descendants(os.getpid())
refused = int(metrics["finalizer"]["update_non_finite"])
print(json.dumps({"sizes": sizes, "refused": refused, "workers": below}))
"""


@pytest.mark.slow
def test_the_page_runs_as_a_script_and_leaves_no_process():
    """With pipes that would stay open while anybody holds them."""
    ran = subprocess.run(
        [sys.executable, "-c", "\n".join([*BLOCKS, THEN])],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    clients, found = map(json.loads, ran.stdout.splitlines()[-2:])
    assert clients == 2
    assert all(math.isfinite(size) for size in found["sizes"])
    assert any(size > 0 for size in found["sizes"])
    assert not found["refused"]  # where a round has no noise its mean is NaN
    assert found["workers"]
    assert not [pid for pid in found["workers"] if process_tree.is_running(pid)]
