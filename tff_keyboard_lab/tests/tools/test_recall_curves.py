"""The convergence figure of Hard et al.: its points, and that a file is drawn."""

import json

from tff_keyboard_lab.tools import recall_curves

METRIC = recall_curves.RECALLS["top-1"]
ROWS = [
    {"round": 1, "tokens": 100},
    {"round": 2, "tokens": 50, METRIC: 0.1, recall_curves.RECALLS["top-3"]: 0.2},
    {"round": 3, "tokens": 50, METRIC: 0.15, recall_curves.RECALLS["top-3"]: 0.3},
]


def test_points_are_the_validated_rounds():
    assert recall_curves.points(ROWS, METRIC) == ([2, 3], [150.0, 200.0], [10.0, 15.0])


def test_parts_follow_each_other_in_rounds_and_tokens():
    joined = recall_curves.in_a_row([ROWS, ROWS])
    assert recall_curves.points(joined, METRIC) == (
        [2, 3, 5, 6],
        [150.0, 200.0, 350.0, 400.0],
        [10.0, 15.0, 10.0, 15.0],
    )


def test_draws_the_runs_it_is_given(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    out = tmp_path / "figures" / "curves.png"
    recall_curves.main([f"federated={run}+{run}", f"--out={out}"])
    assert out.read_bytes().startswith(b"\x89PNG")
    assert out.stat().st_size > 10_000
