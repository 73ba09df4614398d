"""Tables of results: each value is in the row of its name."""

import dataclasses

import numpy as np

from tff_keyboard.evaluation.metrics.metric_table import HOST_SUMS, METRICS
from tff_keyboard.evaluation.report import comparison_text, slice_text
from tff_keyboard.evaluation.results.comparison import Comparison
from tff_keyboard.evaluation.results.result import Evaluation, ModelFacts, TextFacts

PEOPLE = 4
# Per client: 100 typed words, and the numbers that were the first suggestion or on the strip.
COUNTS = {"examples": 10, "tokens": 110, "eos_tokens": 10, "oov_tokens": 20, "nll": 330.0}


def evaluation(name, at_1, at_3):
    counts = dict.fromkeys(HOST_SUMS, 0) | COUNTS | {"hits_at_1": at_1, "hits_at_3": at_3}
    return Evaluation(
        model=ModelFacts(name=name, vocabulary_rows=9, vocabulary_fingerprint="f"),
        text=TextFacts(name="held_out", people=tuple("abcd"), words=100 * PEOPLE),
        sums={key: np.full(PEOPLE, value) for key, value in counts.items()},
        slices={},
        seconds=1.0,
    )


def row_of(table, label):
    (row,) = [line for line in table.splitlines() if line.startswith(f"{label} ")]
    return row.removeprefix(label)


def test_four_rows_and_a_verdict_come_first():
    both = Comparison((evaluation("one", 12, 34), evaluation("two", 20, 30)))
    about, rows, said = comparison_text.first_rows(both).split("\n\n")
    assert about.startswith("4 clients of 'held_out'")
    head, *rows = rows.splitlines()
    assert head.split() == ["one", "two"]
    labels = ["top-1 recall", "top-3 recall", "keystrokes saved", "perplexity"]
    assert [row.startswith(label) for row, label in zip(rows, labels, strict=True)] == [True] * 4
    # All four clients are equal, so each interval is its value.
    assert said == (
        "two is worse than one in top-3 recall (-4.00 [-4.00, -4.00] points); better than it in "
        "top-1 recall; not distinguishable from it in perplexity."
    )


def test_single_model_is_summarised_for_users():
    shown = comparison_text.first_rows(Comparison((evaluation("one", 12, 34),)))
    _, rows, said = shown.split("\n\n")
    assert rows.splitlines()[0].split()[:3] == ["top-1", "recall", "12.00"]
    assert "34.00 %" in said


def test_evaluation_table_has_each_value_after_its_label():
    table = str(comparison_text.evaluation_table(evaluation("run", 12, 34)))
    for name, label, value in (
        ("recall_at_1_no_eos", "top-1 recall", "12.00"),
        ("recall_at_3_no_eos", "top-3 recall", "34.00"),
        ("recall_at_1_words", "top-1 recall, in vocabulary", "15.00"),
        ("recall_at_3_words", "top-3 recall, in vocabulary", "42.50"),
    ):
        assert METRICS[name].label == label
        (row,) = [line for line in table.splitlines() if f" {name} " in line]
        assert row.startswith(f"{label}  ")
        assert row.split(name)[1].split()[0] == value


def test_comparison_has_each_model_in_its_column():
    table = comparison_text.comparison_table(
        Comparison((evaluation("one", 12, 34), evaluation("two", 20, 30)))
    )
    values, differences = table.split("Difference to one")
    assert [row_of(values, "top-1 recall").index(v) for v in ("12.00", "20.00")] == sorted(
        row_of(values, "top-1 recall").index(v) for v in ("12.00", "20.00")
    )
    assert "34.00" in row_of(values, "top-3 recall")
    assert "+8.00" in row_of(differences, "top-1 recall")
    assert "-4.00" in row_of(differences, "top-3 recall")


def test_slices_follow_the_table():
    both = Comparison((evaluation("one", 12, 34),))
    shown = slice_text.comparison_with_slices(both)
    assert shown.startswith(comparison_text.comparison_table(both))


def test_all_tables_follow_the_first_rows():
    one = evaluation("one", 12, 34)
    first = slice_text.evaluation_text(one, everything=False)
    assert first == comparison_text.first_rows(Comparison((one,)))
    shown = slice_text.evaluation_text(one, everything=True)
    assert shown.startswith(f"{first}\n\n{comparison_text.evaluation_table(one)}\n\ntypists ")
    heavy = shown.partition("\ntypists ")[2].splitlines()[1]
    assert heavy.split()[0] == "2"
    assert "50.0%" in heavy.split()
    general = dataclasses.replace(one, general=evaluation("general", 12, 34))
    shown = slice_text.evaluation_text(general, everything=False)
    assert shown == f"{first}\n\nGeneral corpus:\n\n{first}"


def test_counts_that_are_zero_or_lost_in_noise_are_said():
    empty = dataclasses.replace(
        evaluation("a", 0, 0),
        sums={key: np.zeros(PEOPLE) for key in HOST_SUMS},
        text=TextFacts(name="held_out", people=tuple("abcd"), words=0),
    )
    text = comparison_text.describe_text(empty)
    assert text.startswith("4 clients of 'held_out', but no word counts")
    assert "nan" not in text
