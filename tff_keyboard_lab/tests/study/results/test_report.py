"""The three files of a study, which leave out runs without rows."""

import dataclasses
import json

from tff_keyboard_lab import file_names
from tff_keyboard_lab.study.plan.plan import Run
from tff_keyboard_lab.study.results import provenance, report
from tff_keyboard_lab.tests.study.results.test_rows import FACTS, HITS, NATS, evaluations, study_of


def run(arm, seed, tmp_path):
    config, overrides = tmp_path / f"{arm}.toml", ("train.rounds=3", f"train.seed={seed}")
    return Run(arm, "", seed, tmp_path / f"{arm}_{seed}", "train", config, overrides, None, None)


def facts(run, study):
    origin = provenance.Origin(commit=f"c{run.seed}", date="2026-11-22", machine=None)
    return dataclasses.replace(FACTS, origin=origin)


def test_files_of_a_study(tmp_path, monkeypatch):
    monkeypatch.setattr(report.run_facts, "facts_of", facts)
    monkeypatch.chdir(tmp_path)
    runs = [run(arm, seed, tmp_path) for seed in (1, 2) for arm in ("control", "other")]
    results = report.Results(study_of(), runs, "tff-keyboard study x.toml")
    assert results.is_empty
    for each in runs[:3]:
        place = 0 if each.arm == "control" else 1
        results.add(each, evaluations(HITS[place, each.seed - 1], NATS[place, each.seed - 1]))
    assert not results.is_empty
    text = results.write(tmp_path / "study")
    assert text.splitlines()[:2] == [
        "top-1 recall, held-out, compared with control:",
        "  no verdict with fewer than 3 seeds: other",
    ]
    actual = json.loads((tmp_path / "study" / file_names.STUDY).read_text())
    assert actual["command"] == "tff-keyboard study x.toml"
    assert actual["trainings"] == {"commits": ["c1", "c2"], "dates": ["2026-11-22"], "machines": []}
    assert set(actual["tables"]) == {"date", "commit"}
    control, other = actual["rows"]
    assert (control["arm"], other["arm"]) == ("control", "other")
    assert (list(control["seeds"]), list(other["seeds"])) == (["1", "2"], ["1"])
    assert (other["config"], other["set"]) == ("other.toml", ["train.rounds=3"])
    assert list(control["commands"]) == ["1", "2"]
    assert list(other["commands"]) == ["1"]  # seed 2 is not finished
    assert [fact["commit"] for fact in control["facts"].values()] == ["c1", "c2"]
    page = (tmp_path / "study" / file_names.STUDY_TABLES).read_text()
    assert page.startswith(
        "Which?\n\ntop-1 recall, held-out, compared with control:\n\n- no verdict"
    )
    assert "\n| held-out, mean over seeds | seeds |" in page
    assert not (
        tmp_path / "study" / file_names.STUDY_CURVES
    ).exists()  # no run has a row of metrics
