"""Charts with any name: text as paths if the font has the characters, else as browser text."""

import pathlib
import warnings

import numpy as np
import pytest
from matplotlib.axes import Axes

from tff_keyboard.evaluation.report import charts, run_records
from tff_keyboard.evaluation.statistics.jackknife import Interval

BARS = [
    [Interval(0.2, 0.1, 0.3, standard_error=0.05, clients=9, effective_clients=5.0)] * 2,
]


@pytest.mark.parametrize(
    "name, is_text", [("sms", False), ("süß – μ", False), ("键盘", True), ("キーボード", True)]
)
def test_name_in_any_script_is_readable_without_warning(name, is_text):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        svg = charts.interval_bars(["recall"], ["other", name], BARS)
    assert (name in svg.split("</metadata>")[-1]) or not is_text
    assert ("<text" in svg) == is_text
    assert svg == charts.interval_bars(["recall"], ["other", name], BARS)


def record(*names):
    rows = [
        {"round": number, "evaluation/perplexity": 300.0 / number, **dict.fromkeys(names, 10)}
        for number in range(1, 6)
    ]
    return run_records.RunRecord(
        name="run",
        path=pathlib.Path("run"),
        rows=rows,
        config_text="",
        data_card={},
        environment={},
        ledger_path=None,
    )


@pytest.mark.parametrize("name", [r"$\foo$", "$$", "a $5 b $6"])
def test_a_dollar_in_a_name_is_no_formula(name):
    assert "<svg" in charts.interval_bars(["recall"], ["other", name], BARS)


def test_curves_are_over_tokens_or_over_rounds_if_private(monkeypatch):
    labels = []
    monkeypatch.setattr(Axes, "set_xlabel", lambda axes, text, **_: labels.append(text))
    charts.learning_curves([record("tokens")])
    assert set(labels) == {"trained tokens"}
    labels.clear()
    charts.learning_curves([record(), record("tokens")])
    assert set(labels) == {"round"}


def test_the_axis_of_rounds_goes_on_beside_the_curve():
    """At the edges of a plot, which is wider than its curve, ticks were drawn over each other."""
    to_rounds, to_tokens = charts.rounds_of_tokens({200: 100.0, 400: 300.0, 600: 600.0})
    tokens = np.array([-60.0, 0.0, 50.0, 200.0, 600.0, 672.0])
    np.testing.assert_allclose(to_rounds(tokens), [-60.0, 0.0, 100.0, 300.0, 600.0, 672.0])
    np.testing.assert_allclose(to_tokens(to_rounds(tokens)), tokens)
    assert to_tokens(800.0) - to_tokens(600.0) == pytest.approx(200.0)
