"""The configs and studies that we ship."""

import pathlib

from tff_keyboard.study import plan, study_file

RESULTS = pathlib.Path("configs/reference.toml")
_ALL = sorted(set(pathlib.Path("configs").rglob("*.toml")) - {RESULTS})
STUDIES = [path for path in _ALL if path.parent.name == "studies"]
CONFIGS = [path for path in _ALL if path not in STUDIES]


def runs(path):
    """All runs of a study."""
    return plan.runs_of(study_file.load(path), path.parent, pathlib.Path("runs"))


def options():
    """A run of every arm of the studies that show one option an arm: (name, config, overrides)."""
    for path in STUDIES:
        if path.stem.startswith("options_"):
            for run in runs(path):
                if run.seed == 1:
                    yield f"{path.stem}:{run.arm}", run.config_file, run.overrides
