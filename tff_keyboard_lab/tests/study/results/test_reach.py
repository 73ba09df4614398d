"""When a run reaches a share of its control."""

import pytest

from tff_keyboard_lab.study.results import reach

RECALL = "recall_at_3_no_eos"


def row(number, value=None):
    sent = {"clients": 2, "clients_selected": 3, "bytes_down": 30, "bytes_up": 20}
    return {"round": number, **sent, **({} if value is None else {f"evaluation/{RECALL}": value})}


ROWS = [row(1), row(2, 0.1), row(3), row(4, 0.3), row(5), row(6, 0.2)]


def test_bytes_are_summed_up_to_each_validation():
    progress = reach.of_rows(ROWS, RECALL, sends=True)
    assert progress == ([2, 4, 6], [0.1, 0.3, 0.2], [100, 200, 300])
    assert reach.of_rows(ROWS, RECALL, sends=False).total_bytes == [0, 0, 0]
    private = reach.of_rows(ROWS, RECALL, sends=True, is_private=True)
    assert private.total_bytes == [None, None, None]


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, (2, 100)), (0.95, (4, 200)), (1.0, (4, 200))]
)
def test_the_last_value_of_the_control_with_the_same_seed_is_the_measure(share, expected):
    run = reach.of_rows(ROWS, RECALL, sends=True)
    controls = {1: reach.Progress([6], [0.3], [0]), 2: reach.Progress([6], [0.4], [0])}
    reached = reach.reached_by_seed({1: run, 2: run, 3: run}, controls, share)
    assert reached[1] == expected
    assert reached[2] == ((2, 100) if share == 0 else None)  # 0.38 is never reached
    assert set(reached) == {1, 2}  # seed 3 has no control


def test_a_control_without_a_validation_measures_nothing():
    run = reach.of_rows(ROWS, RECALL, sends=True)
    assert reach.reached_by_seed({1: run}, {1: reach.Progress([], [], [])}, 0.95) == {}
