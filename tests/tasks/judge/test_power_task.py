"""The power task on files of `evaluate` and `compare`."""

import json
import re

import numpy as np
import pytest

from tasks.judge import power
from tff_keyboard.evaluation.results.comparison import Comparison
from tff_keyboard.evaluation.results.result import Evaluation, ModelFacts, TextFacts
from tff_keyboard.storage.errors import DataError, UsageError

PEOPLE = 40


def evaluation(name, seed):
    rng = np.random.default_rng(seed)
    base = np.random.default_rng(0).uniform(0.1, 0.4, PEOPLE)  # people differ, models hardly
    tokens = np.full(PEOPLE, 100.0)
    hits = rng.binomial(100, base).astype(float)
    sums = {"tokens": tokens, "eos_tokens": 0 * tokens, "hits_at_1": hits, "hits_at_3": hits + 5}
    sums |= {"nll": 500 - hits}
    people = tuple(f"p{i}" for i in range(PEOPLE))
    text = TextFacts(name="held_out", people=people, words=4000, store="s")
    return Evaluation(model=ModelFacts(name=name), text=text, sums=sums)


@pytest.fixture
def files(tmp_path):
    one, two = evaluation("one", 1), evaluation("two", 2)
    (tmp_path / "evaluation.json").write_text(json.dumps(one.to_json()))
    (tmp_path / "comparison.json").write_text(json.dumps(Comparison((one, two)).to_json()))
    return tmp_path


def test_the_same_people_need_fewer(files, capsys):
    power.run(power.Options(results=files / "comparison.json", lift=("top-1:0.5,perplexity:3",)))
    lines = capsys.readouterr().out.splitlines()
    cells = [re.split(r"\s{2,}", line) for line in lines]
    needed = [int(row[4].split()[0].replace(",", "")) for row in cells[1:3]]
    assert needed[0] < needed[1]
    assert "2 metrics (Holm" in "".join(lines)


def test_looks_are_explained(files, capsys):
    power.run(power.Options(results=files / "evaluation.json", lift=("top-3:1",), looks=2))
    text = capsys.readouterr().out
    assert "more standard errors than 2.96, 1.97" in text
    assert "same people" not in text


@pytest.mark.parametrize("lift", [(), ("top-4:1",), ("top-1",), ("top-1:0",), ("kss:1",)])
def test_wrong_lifts_are_one_line(files, lift):
    with pytest.raises(UsageError):
        power.run(power.Options(results=files / "evaluation.json", lift=lift))


def test_other_files_are_refused(files):
    (files / "other.json").write_text("[1]")
    with pytest.raises(DataError, match="holds no results"):
        power.run(power.Options(results=files / "other.json", lift=("top-1:1",)))
    with pytest.raises(DataError, match="Cannot read"):
        power.run(power.Options(results=files / "none.json", lift=("top-1:1",)))
