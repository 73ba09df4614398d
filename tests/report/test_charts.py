"""Charts of any name: paths where the font has the characters, else text for the browser."""

import pathlib
import warnings

import pytest
from matplotlib.axes import Axes

from tff_keyboard.evaluation.statistics.jackknife import Interval
from tff_keyboard.report import charts, run_records

BARS = [
    [Interval(0.2, 0.1, 0.3, standard_error=0.05, clients=9, effective_clients=5.0)] * 2,
]


@pytest.mark.parametrize(
    "name, is_text", [("sms", False), ("süß – μ", False), ("键盘", True), ("キーボード", True)]
)
def test_a_name_in_any_script_is_readable_and_warns_of_nothing(name, is_text):
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


def test_curves_are_over_tokens_and_of_a_private_run_over_rounds(monkeypatch):
    labels = []
    monkeypatch.setattr(Axes, "set_xlabel", lambda axes, text, **_: labels.append(text))
    charts.learning_curves([record("tokens")])
    assert set(labels) == {"tokens trained on"}
    labels.clear()
    charts.learning_curves([record(), record("tokens")])
    assert set(labels) == {"round"}
