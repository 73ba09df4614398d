"""The three files of a study: what is in them, and that runs without rows are left out."""

import json

from tests.study.test_rows import FACTS, HITS, NATS, evaluations, study_of
from tff_keyboard.storage import names
from tff_keyboard.study import report
from tff_keyboard.study.plan import Run


def run(arm, seed, tmp_path):
    return Run(arm, "", seed, tmp_path / f"{arm}_{seed}", "train", tmp_path, (), None, None)


def test_what_a_study_leaves(tmp_path, monkeypatch):
    monkeypatch.setattr(report.rows, "facts_of", lambda run, study: FACTS)
    runs = [run(arm, seed, tmp_path) for seed in (1, 2) for arm in ("control", "other")]
    results = report.Results(study_of(), runs, "tff-keyboard study x.toml")
    assert results.is_empty
    for each in runs[:3]:
        place = 0 if each.arm == "control" else 1
        results.add(each, evaluations(HITS[place, each.seed - 1], NATS[place, each.seed - 1]))
    assert not results.is_empty
    text = results.write(tmp_path / "study")
    found = json.loads((tmp_path / "study" / names.STUDY).read_text())
    assert found["command"] == "tff-keyboard study x.toml"
    assert [row["arm"] for row in found["rows"]] == ["control", "other"]
    assert [list(row["seeds"]) for row in found["rows"]] == [["1", "2"], ["1"]]
    assert (
        tmp_path / "study" / names.STUDY_TABLES
    ).read_text() == f"{study_of().question}\n\n{text}\n"
    assert not (tmp_path / "study" / names.STUDY_CURVES).exists()  # no run has a row of metrics
