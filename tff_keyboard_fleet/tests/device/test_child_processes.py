"""The child processes of a device do not import modules from the current folder."""

import numpy as np
import pytest

from tests.support.hostile_folder import enter_hostile_folder
from tff_keyboard.storage.errors import ExportError
from tff_keyboard_fleet.device import apply_patch, training_process
from tff_keyboard_fleet.device.training_process import Job
from tff_keyboard_fleet.wire import model_patch, weights


def test_training_and_patching_in_a_folder_with_names_of_modules(tmp_path, monkeypatch):
    """The training process reads the user's messages, so a module of the folder could, too."""
    enter_hostile_folder(tmp_path / "downloads", monkeypatch)
    plan = tmp_path / "plan"
    job = Job(plan=str(plan), graph="g", model="m", upload="u", assignment="a", texts=["secret"])
    with pytest.raises(ExportError, match=f"Training failed: {plan} is missing"):
        training_process.run_in_child(job, 60)
    vectors = [weights.to_bytes(np.arange(5.0) * scale) for scale in (1, 2)]
    (tmp_path / "old").write_bytes(vectors[0])
    (tmp_path / "change").write_bytes(model_patch.make(*vectors))
    assert apply_patch.run_in_child(*(tmp_path / name for name in ("old", "change", "new")))
    assert (tmp_path / "new").read_bytes() == vectors[1]
