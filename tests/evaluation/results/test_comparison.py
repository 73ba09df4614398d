"""Comparisons: paired differences, verdicts and shares of clients against NumPy; text and files."""

import csv
import dataclasses
import io
import json
import math

import numpy as np
import pytest

from tests.support.truth import jackknife_truth
from tff_keyboard.evaluation.metrics.metric_table import (
    HEADLINES,
    HOST_SUMS,
    METRICS,
    OPTIONAL_SUMS,
)
from tff_keyboard.evaluation.report import comparison_text, slice_text
from tff_keyboard.evaluation.results import comparison as comparisons
from tff_keyboard.evaluation.results.comparison import Comparison, pooled_difference, verdict
from tff_keyboard.evaluation.results.result import (
    Evaluation,
    ModelFacts,
    TextFacts,
    pooled_sums,
    read_json,
)
from tff_keyboard.evaluation.statistics.jackknife import Interval
from tff_keyboard.evaluation.statistics.sums import metric_difference

PEOPLE = 8


def random_sums(seed, people=PEOPLE):
    """Returns sums with the relations of real ones: hits <= words <= tokens."""
    rng = np.random.default_rng(seed)
    sums = {
        name: rng.integers(1, 20, people).astype(kind) for name, kind in sorted(HOST_SUMS.items())
    }
    sums["tokens"] += 200
    sums["characters"] += 500
    sums["impressions"] += 100
    sums["zero_state_impressions"] += 20
    sums["nll"] += 900
    sums["confidence"] *= 4
    for name in OPTIONAL_SUMS:  # as for a model with a fixed table
        sums[name] *= 0
    return sums


def evaluation(name, seed, fingerprint="a", people=PEOPLE, **text):
    facts = {"name": "x", "words": 9, "words_left_out": 3, "max_length": 20} | text
    return Evaluation(
        model=ModelFacts(
            name=name,
            kind="ngram",
            source=f"runs/{name}",
            vocabulary_rows=10,
            vocabulary_fingerprint=fingerprint,
            details={"order": 3},
        ),
        text=TextFacts(people=tuple(f"{i:016x}" for i in range(people)), **facts),
        sums=random_sums(seed, people),
        slices={
            "place": {"first word": random_sums(seed + 100, people)},
            "confidence": {"0.00 to 0.07": random_sums(seed + 200, people)},
        },
        seconds=1.0,
    )


def compared(fingerprint="a"):
    return Comparison((evaluation("one", 1), evaluation("two", 2, fingerprint)))


def numpy_difference(first, second, numerator, denominator):
    """Computes the paired jackknife over clients of a difference of ratios of two names."""

    def ratio(sums, kept):
        return sums[numerator][kept].sum() / sums[denominator][kept].sum()

    everyone = np.ones(PEOPLE, bool)
    without = []
    for person in range(PEOPLE):
        kept = everyone.copy()
        kept[person] = False
        without.append(ratio(first, kept) - ratio(second, kept))
    value = ratio(first, everyone) - ratio(second, everyone)
    reach = jackknife_truth.reach(without, first[denominator] + second[denominator])
    return value, value - reach, value + reach


def test_difference_is_the_paired_jackknife():
    first, second = random_sums(1), random_sums(2)
    actual = metric_difference(first, second, "recall_at_1_all")
    np.testing.assert_allclose(actual[:3], numpy_difference(first, second, "hits_at_1", "tokens"))
    actual = metric_difference(first, second, "perplexity")
    expected = np.exp(numpy_difference(first, second, "nll", "tokens"))
    np.testing.assert_allclose(actual[:3], expected)


def test_model_compared_with_itself_is_not_distinguishable():
    sums = random_sums(3)
    actual = comparisons.difference(sums, sums, METRICS["kss"])
    assert actual.interval[:3] == (0, 0, 0)
    assert actual.verdict == "not distinguishable"
    assert actual.better_off.value == 0.5


@pytest.mark.parametrize(
    "low, high, better, neutral, expected",
    [
        (0.1, 0.3, "higher", 0, "better"),
        (-0.3, -0.1, "higher", 0, "worse"),
        (-0.1, 0.3, "higher", 0, "not distinguishable"),
        (0.0, 0.3, "higher", 0, "not distinguishable"),
        (0.8, 0.9, "lower", 1, "better"),
        (1.1, 1.2, "lower", 1, "worse"),
        (0.9, 1.1, "lower", 1, "not distinguishable"),
        (math.nan, math.nan, "higher", 0, ""),
        (0.1, 0.3, "", 0, ""),
    ],
)
def test_verdicts(low, high, better, neutral, expected):
    interval = Interval((low + high) / 2, low, high, 0.1, PEOPLE)
    assert verdict(interval, better=better, neutral=neutral) == expected


def test_differences_are_of_later_models_to_the_first():
    result = compared()
    actual = result.differences[0]["kss"].interval
    first, second = (model.metrics["kss"].value for model in result.evaluations)
    assert actual.value == pytest.approx(second - first)
    assert set(result.differences[0]) == {m.name for m in HEADLINES if m.better}


def test_csv_and_table_match_the_json():
    result = compared()
    content = result.to_json()
    rows = list(csv.DictReader(io.StringIO(comparison_text.to_csv(result))))
    by_key = {(row["model"], row["metric"]): row for row in rows}
    kss, expected = by_key["two", "kss"], content["differences"][0]["metrics"]["kss"]
    assert float(kss["value"]) == content["models"][1]["metrics"]["kss"]["value"]
    assert float(kss["difference"]) == expected["value"]
    assert float(kss["people_better_off"]) == expected["people_better_off"]
    assert by_key["one", "kss"]["verdict"] == ""
    table = comparison_text.comparison_table(result)
    value = content["models"][0]["metrics"]["recall_at_1_no_eos"]["value"]
    assert f"{100 * value:.2f} [" in table
    for row in content["differences"][0]["metrics"].values():
        assert row["verdict"] in table
    first = comparison_text.first_rows(result)
    assert "3 more words (25.0%) after the first 20 targets" in first
    assert f"effective number {result.first.effective_clients:.1f}" in first


def test_perplexities_of_other_vocabularies_are_not_compared():
    actual = compared("b").differences[0]
    assert "perplexity" not in actual
    assert actual["kss"].verdict
    assert "other vocabulary" in comparison_text.comparison_table(compared("b"))
    said = "only between models with the same words"
    assert said in comparison_text.first_rows(compared("b"))
    assert said not in comparison_text.first_rows(compared("a"))


def test_one_client_gives_no_interval():
    one = evaluation("one", 1, people=1)
    result = Comparison((one, dataclasses.replace(one, model=ModelFacts(name="b"))))
    content = result.to_json()
    assert content["models"][0]["metrics"]["kss"]["low"] is None
    assert content["differences"][0]["metrics"]["kss"]["verdict"] == ""
    assert "NaN" not in json.dumps(content)
    comparison_text.comparison_table(result)
    assert "b and one: too few clients for a verdict." in comparison_text.first_rows(result)
    slice_text.slice_tables(one)
    slice_text.difference_tables(result)


def test_file_round_trip():
    result = compared()
    again = Comparison.from_json(json.loads(json.dumps(result.to_json(), allow_nan=False)))
    assert again.to_json() == result.to_json()
    assert again.differences == result.differences
    assert again.first.model == result.first.model
    assert again.text == result.text
    general = evaluation("g", 5)
    one = dataclasses.replace(evaluation("one", 1), general=general)
    read = Evaluation.from_json(json.loads(json.dumps(one.to_json())))
    assert read.to_json() == one.to_json()
    assert read.general.metrics == general.metrics


@pytest.mark.parametrize(
    "change",
    [
        {"format": "tff-keyboard comparison 2"},
        {"models": []},
        {"text": {}},
        {"text": {"name": "x", "people": ["a"], "words": 1}},
    ],
    ids=["version", "models", "text", "people"],
)
def test_invalid_file_is_one_error(tmp_path, change):
    from tff_keyboard.storage.errors import DataError

    path = tmp_path / "comparison.json"
    path.write_text(json.dumps(compared().to_json() | change))
    with pytest.raises(
        DataError, match=r"comparison\.json: this version cannot read .* Run `compare`"
    ):
        read_json(path, Comparison.from_json, "compare")
    path.write_text("{")
    with pytest.raises(DataError, match="this version cannot read"):
        read_json(path, Comparison.from_json, "compare")
    with pytest.raises(DataError, match="this version cannot read"):
        read_json(tmp_path / "none.json", Comparison.from_json, "compare")


def test_other_clients_or_texts_are_rejected():
    with pytest.raises(ValueError, match="same clients"):
        Comparison((evaluation("one", 1), evaluation("two", 2, people=7)))
    with pytest.raises(ValueError, match="same clients"):
        Comparison((evaluation("one", 1), evaluation("two", 2, max_length=0)))
    with pytest.raises(ValueError, match="at least one model"):
        Comparison(())


def test_seeds_are_pooled_by_client():
    first, control = ([evaluation("m", seed) for seed in seeds] for seeds in ((1, 2), (3, 4)))
    pooled = pooled_sums(first)
    np.testing.assert_array_equal(
        pooled["hits_at_1"], first[0].sums["hits_at_1"] + first[1].sums["hits_at_1"]
    )
    actual = pooled_difference(first, control, "recall_at_1_all")
    value, low, _ = numpy_difference(pooled, pooled_sums(control), "hits_at_1", "tokens")
    alone = [
        numpy_difference(one.sums, other.sums, "hits_at_1", "tokens")[0]
        for one, other in zip(first, control, strict=True)
    ]
    reach = jackknife_truth.reach_with_seeds(value - low, np.array(alone))
    np.testing.assert_allclose(actual[:3], (value, value - reach, value + reach))
    one_seed = pooled_difference(first[:1], control[:1], "recall_at_1_all")
    expected = numpy_difference(first[0].sums, control[0].sums, "hits_at_1", "tokens")
    np.testing.assert_allclose(one_seed[:3], expected)  # over clients alone


def test_perplexities_of_seeds_are_pooled_in_nats():
    first, control = ([evaluation("m", seed) for seed in seeds] for seeds in ((1, 2, 3), (4, 5, 6)))
    sums = pooled_sums(first), pooled_sums(control)
    value, low, _ = numpy_difference(*sums, "nll", "tokens")
    alone = [
        numpy_difference(one.sums, other.sums, "nll", "tokens")[0]
        for one, other in zip(first, control, strict=True)
    ]
    reach = jackknife_truth.reach_with_seeds(value - low, np.array(alone))
    actual = pooled_difference(first, control, "perplexity")
    np.testing.assert_allclose(actual[:3], np.exp([value, value - reach, value + reach]))


def test_pooling_rejects_other_clients_and_numbers_of_seeds():
    first, control = ([evaluation("m", seed) for seed in seeds] for seeds in ((1, 2), (3, 4)))
    with pytest.raises(ValueError, match="the same number"):
        pooled_difference(first, control[:1], "kss")
    with pytest.raises(ValueError, match="same clients"):
        pooled_difference(first, [evaluation("m", 3), evaluation("m", 3, people=7)], "kss")
