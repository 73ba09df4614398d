"""The figure of accuracy against epsilon: its points, and that a file is drawn."""

import json

import pytest

from tff_keyboard_lab.tools import epsilon_picture


def row(name, values, epsilon=None):
    def metrics(value):
        return {
            "held_out": {
                metric: {"value": value, "low": value - 0.01, "high": value + 0.02}
                for metric in epsilon_picture.PANELS
            }
        }

    return {
        "name": name,
        "facts": {
            str(seed): {} if epsilon is None else {"privacy": {"epsilon": epsilon}}
            for seed in range(len(values))
        },
        "metrics": metrics(sum(values) / len(values)),
        "seeds": {str(seed): metrics(value) for seed, value in enumerate(values)},
    }


ROWS = [
    row("no privacy", [0.3]),
    row("tree, z = 4", [0.2, 0.24], epsilon=9.0),
    row("tree, z = 16", [0.1], epsilon=2.0),
]


def test_a_mechanism_is_a_line_from_small_epsilon_to_large():
    actual = epsilon_picture.points(ROWS, "recall_at_1_no_eos")
    assert list(actual) == ["no privacy", "tree"]
    assert actual["no privacy"][0].epsilon == float("inf")
    small, large = actual["tree"]
    assert (small.epsilon, large.epsilon) == (2.0, 9.0)
    assert large[1:4] == pytest.approx((22.0, 21.0, 24.0))
    assert large.of_seeds == pytest.approx((20.0, 24.0))
    assert epsilon_picture.points(ROWS, "perplexity")["tree"][0].value == pytest.approx(0.1)


def test_draws_a_study(tmp_path):
    (tmp_path / "study.json").write_text(json.dumps({"rows": ROWS}))
    out = tmp_path / "pictures" / "epsilon.png"
    epsilon_picture.main([str(tmp_path / "study.json"), f"--out={out}"])
    assert out.read_bytes().startswith(b"\x89PNG")
    assert out.stat().st_size > 10_000
