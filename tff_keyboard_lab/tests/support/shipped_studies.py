"""Runs of the shipped studies."""

import pathlib

from tests.support.shipped_configs import STUDIES
from tff_keyboard_lab.study.plan import plan, study_file


def runs(path):
    """Returns all runs of a study."""
    return plan.runs_of(study_file.load(path), path.parent, pathlib.Path("runs"))


# Arms that show what neither a config nor an arm of `options_*` shows.
_ALSO = {
    "rules_lstm2": ("fedmed",),
    "popov_sms": ("rehearsal_50", "lwf_50", "transfer_generated_1"),
}


def options():
    """Returns runs that show one option each: (name, config, overrides)."""
    for path in STUDIES:
        arms = _ALSO.get(path.stem)
        if arms is None and not path.stem.startswith("options_"):
            continue
        for run in runs(path):
            if run.seed == 1 and (arms is None or run.arm in arms):
                yield f"{path.stem}:{run.arm}", run.config_file, run.overrides
