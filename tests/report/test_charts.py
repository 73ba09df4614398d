"""Charts of any name: paths where the font has the characters, else text for the browser."""

import warnings

import pytest

from tff_keyboard.metrics.jackknife import Interval
from tff_keyboard.report import charts

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
