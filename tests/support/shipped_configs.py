"""The configs and studies that we ship."""

import pathlib

from tff_keyboard.study.plan import plan, study_file

RESULTS = pathlib.Path("configs/reference.toml")
_ALL = sorted(set(pathlib.Path("configs").rglob("*.toml")) - {RESULTS})
STUDIES = [path for path in _ALL if "studies" in path.parts]
CONFIGS = [path for path in _ALL if path not in STUDIES]


def runs(path):
    """All runs of a study."""
    return plan.runs_of(study_file.load(path), path.parent, pathlib.Path("runs"))


# Arms that show what neither a config nor an arm of `options_*` shows.
_ALSO = {
    "rules_lstm2": ("fedmed",),
    "popov_sms": ("rehearsal_50", "lwf_50", "transfer_generated_1"),
}


def options():
    """Runs that show an option each: (name, config, overrides)."""
    for path in STUDIES:
        arms = _ALSO.get(path.stem)
        if arms is None and not path.stem.startswith("options_"):
            continue
        for run in runs(path):
            if run.seed == 1 and (arms is None or run.arm in arms):
                yield f"{path.stem}:{run.arm}", run.config_file, run.overrides
