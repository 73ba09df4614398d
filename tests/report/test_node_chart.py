"""A picture of a round on a cluster: of which round, and with a bar for each part."""

import re

from tff_keyboard.report import node_chart
from tff_keyboard.report.node_chart import PartTime

HEAD = "round,node,item,start,end,compute_seconds,outcome\n"
PARTS = [("ada/1", "done"), ("bob/2", "done"), ("bob/2", "late")]
TIMES = [
    PartTime(number, node, item, 100.0 + item, 100.0 + item + seconds, outcome)
    for number, seconds in ((1, 30.0), (2, 2.0), (3, 1.0))
    for item, (node, outcome) in enumerate(PARTS)
]


def test_the_median_round():
    assert {time.round_num for time in node_chart.median_round(TIMES)} == {2}
    assert {time.round_num for time in node_chart.median_round(TIMES[:6])} == {2}
    assert {time.round_num for time in node_chart.median_round(TIMES[:3])} == {1}


def test_a_bar_for_each_part_and_the_same_bytes_each_time():
    picture = node_chart.round_picture(TIMES[:3])
    assert picture == node_chart.round_picture(TIMES[:3])
    assert picture.startswith("<svg")
    # Bars have a white edge, and so has what the legend shows of the two outcomes.
    assert len(re.findall(r"stroke: #ffffff", picture)) == 3 + 2


def test_reads_what_a_run_keeps(tmp_path):
    path = tmp_path / "node_timings.csv"
    assert node_chart.read_times(path) == []
    rows = "1,ada/1,0,100.000,101.500,1.400,done\n1,bob/2,1,100.1,102.0,,lost\n2,ad"
    path.write_text(HEAD + rows)
    first, second = node_chart.read_times(path)
    assert first == PartTime(1, "ada/1", 0, 100.0, 101.5, "done")
    assert second.outcome == "lost"
