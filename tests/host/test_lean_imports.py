"""Imports that leave out unused packages, and restore them afterwards."""

import gc
import pathlib
import subprocess
import sys

import pytest

from tff_keyboard.host import quiet

ROOT = pathlib.Path(__file__).parents[2]
# Fails if TensorFlow or TFF can no longer be imported without the two packages.
PROGRAM = """
import sys

from tff_keyboard.host import quiet

tff = quiet.import_tensorflow_federated()
import tensorflow_privacy

print([name for name in ("jax", "sklearn") if name in sys.modules])
import jax
from sklearn import preprocessing

print(jax.__name__, preprocessing.__name__)
"""


def test_hidden_packages_are_restored():
    before = {name: sys.modules.get(name) for name in ("jax", "sklearn")}
    with quiet.without_unused_packages():
        assert not gc.isenabled()
    assert {name: sys.modules.get(name) for name in before} == before
    assert gc.isenabled()


def test_hidden_packages_are_restored_after_an_error():
    with pytest.raises(ImportError), quiet.without_unused_packages():
        raise ImportError("no TensorFlow")
    assert sys.modules.get("jax", gc) is not None
    assert gc.isenabled()


@pytest.mark.slow
def test_tff_imports_without_unused_packages():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[]", "jax sklearn.preprocessing"]
