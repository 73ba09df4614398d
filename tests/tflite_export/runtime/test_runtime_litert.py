"""The same file in LiteRT and in TensorFlow's interpreter, each in a process of its own.

LITERT_PYTHON names another Python for LiteRT, such as one with another version of it.
"""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from tests.support.keyboard import export_fakes
from tests.support.keyboard.export_fakes import export
from tflite_export.export.export_options import QUANTIZATIONS, ExportOptions

ROOT = pathlib.Path(__file__).parents[3]
HERE = sys.executable if importlib.util.find_spec("ai_edge_litert") else None
PYTHON = os.environ.get("LITERT_PYTHON", HERE)

pytestmark = pytest.mark.skipif(not PYTHON, reason="ai-edge-litert is not installed")

# Runs in either Python: what both runtimes must agree on, as JSON.
SCRIPT = """
import json, sys
import numpy as np
from tflite_export.format import signatures
from tflite_export.runtime.keyboard_predictor import KeyboardPredictor
path, runtime, xnnpack, trainable, sentences = json.loads(sys.argv[1])
predictor = KeyboardPredictor(path, runtime=runtime, xnnpack=xnnpack)
strips = [predictor.strip_for(s[:end]).suggestions for s in sentences for end in range(len(s) + 1)]
losses = []
if trainable:
    train = predictor.signature(signatures.TRAIN)
    for sentence in sentences * 3:
        ids = [[*predictor.encode(sentence.split()), 2]]
        rate = np.array(0.1, np.float32)
        losses.append(float(train(tokens=np.array(ids, np.int32), learning_rate=rate)["loss"]))
others = {"litert": "tensorflow", "tensorflow": "ai_edge_litert"}
assert others[runtime] not in sys.modules
print(json.dumps([strips, losses]))
"""


def run(python, *arguments):
    done = subprocess.run(
        [python, "-c", SCRIPT, json.dumps([*arguments, export_fakes.SENTENCES])],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*QUANTIZATIONS, "trainable"])
@pytest.mark.parametrize("xnnpack", [False, True], ids=["plain", "xnnpack"])
def test_both_runtimes_suggest_the_same(tmp_path, kind, xnnpack):
    run_dir = export_fakes.save_run(tmp_path / "run")
    trainable = kind == "trainable"
    options = ExportOptions(trainable=True) if trainable else ExportOptions(quantization=kind)
    path = str(export(run_dir, tmp_path / "k.tflite", options).paths.model)
    strips, losses = run(PYTHON, path, "litert", xnnpack, trainable)
    expected, expected_losses = run(sys.executable, path, "tensorflow", xnnpack, trainable)
    same = [
        [word for word, _ in strip] == [word for word, _ in other]
        for strip, other in zip(strips, expected, strict=True)
    ]
    # Kernels round activations to 8 bits at slightly different places: near-ties may swap.
    exact = kind in ("none", "trainable")
    assert np.mean(same) == 1.0 if exact else np.mean(same) >= 0.95
    for strip, other in zip(strips, expected, strict=True):
        for word, probability in strip:
            if word in dict(other):
                assert probability == pytest.approx(dict(other)[word], rel=0.05, abs=0.02)
    # From a loss of 15, steps amplify the last digits of float32.
    np.testing.assert_allclose(losses, expected_losses, rtol=2e-3)
