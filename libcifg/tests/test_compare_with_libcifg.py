"""with libcifg in place of the interpreter."""

import numpy as np
import pytest

from tests.tasks.evaluate.test_compare_task import SHIPPED, compare
from tff_keyboard_lab.benchmarks.phone import libcifg as native
from tflite_export.runtime import libcifg
from tflite_export.runtime.keyboard_predictor import KeyboardPredictor


@pytest.mark.slow
@pytest.mark.skipif(not native.compiler(), reason="no C++ compiler")
def test_with_libcifg_the_figures_are_the_same(tmp_path, monkeypatch):
    library = native.make("libcifg.so", tmp_path)
    text = tmp_path / "text.txt"
    text.write_text("see you later\nwhere are you now\n" * 5)
    read = []
    used = KeyboardPredictor.read_states_with
    monkeypatch.setattr(
        KeyboardPredictor,
        "read_states_with",
        lambda self, path: (used(self, path), read.append(path)),
    )
    found = []
    for built in (None, library):
        monkeypatch.setattr(libcifg, "built_library", lambda built=built: built)
        comparison = compare([SHIPPED], text=text, out=tmp_path / "out")
        found.append(comparison.first.sums)
    assert read == [library]
    for name, values in found[0].items():
        np.testing.assert_allclose(values, found[1][name], rtol=1e-4, err_msg=name)
