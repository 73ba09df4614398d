"""The answer of a study, and its table for a terminal."""

import dataclasses

import numpy as np

from tff_keyboard.evaluation.metrics.metric_table import METRICS
from tff_keyboard_lab.study.results import rows, summary
from tff_keyboard_lab.tests.study.results.test_rows import (
    FACTS,
    RECALL,
    WORDS,
    evaluations,
    study_of,
)

HITS = np.arange(5.0) + 1
GAINS = {"control": 0.0, "other": 0.1, "late": -0.1}


def rows_with(study, seeds_of):
    results = {
        (name, ""): {
            seed: evaluations(HITS * (1 + 0.01 * bool(GAINS[name])) + GAINS[name] * WORDS, HITS)
            for seed in range(seeds)
        }
        for name, seeds in seeds_of.items()
    }
    facts = {key: dict.fromkeys(by_seed, FACTS) for key, by_seed in results.items()}
    return rows.rows_of(study, results, facts)


def test_the_answer_names_the_arms_of_each_verdict():
    study = dataclasses.replace(study_of(), metrics=(RECALL, "perplexity"))
    actual = rows_with(study, {"control": 3, "other": 3, "late": 3})
    assert summary.answer(study, actual).splitlines() == [
        "top-1 recall, held-out, compared with control:",
        "  better: other",
        "  worse: late",
    ]
    table = summary.table(study, actual).splitlines()
    assert [line.split()[0] for line in table[1:]] == ["control", "other", "late"]
    assert table[0].endswith("top-1 recall, difference")
    assert table[1].endswith(" control")
    assert "+10.1" in table[2]
    assert "-9.9" in table[3]
    assert max(map(len, table)) < 100


def test_too_few_seeds_are_no_verdict():
    study = dataclasses.replace(study_of(), metrics=(RECALL,))
    text = summary.answer(study, rows_with(study, {"control": 3, "other": 2, "late": 3}))
    assert text.splitlines()[1:] == [
        "  worse: late",
        "  no verdict with fewer than 3 seeds: other",
    ]


def test_a_control_alone_answers_nothing():
    study = dataclasses.replace(study_of(), metrics=(RECALL,))
    actual = rows_with(study, {"control": 1})
    assert summary.answer(study, actual).endswith(
        "no other arm has finished runs with its seeds yet"
    )
    assert summary.table(study, actual).splitlines()[1].endswith(" control")


def test_a_metric_of_which_no_value_is_better_gives_no_verdict(monkeypatch):
    monkeypatch.setitem(METRICS, RECALL, dataclasses.replace(METRICS[RECALL], better=""))
    study = dataclasses.replace(study_of(), metrics=(RECALL,))
    text = summary.answer(study, rows_with(study, {"control": 3, "other": 3}))
    assert text.endswith("no verdict, because no value of it is better: other")
