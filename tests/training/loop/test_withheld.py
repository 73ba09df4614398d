"""Rows of a private run: nothing of the withheld part is in any released file."""

import asyncio
import json
import stat

import pytest

from tff_keyboard.training.loop import release, withheld

ROWS = {
    1: {"clients": 7, "evaluation/perplexity": 9.5, "train/nll": 3.25},
    2: {"clients": 6, "privacy/epsilon": 0.5, "train/nll": 3.125},
    3: {"clients": 5, "train/nll": 3.0625},
}


def manager(directory):
    released = [
        release.MetricsRelease(directory / "metrics.jsonl", directory / "metrics.csv"),
        release.TensorBoardRelease(directory / "tensorboard"),
    ]
    return withheld.WithholdingRelease(directory / "secret.jsonl", released)


def write(directory, first, last):
    one = manager(directory)
    one.restart_after(first - 1)
    for round_num in range(first, last + 1):
        asyncio.run(one.release(ROWS[round_num], round_num))


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_rows_are_split_and_name_withheld_metrics(tmp_path):
    write(tmp_path, 1, 3)
    public = rows(tmp_path / "metrics.jsonl")
    assert public[0] == {"round": 1, "evaluation/perplexity": 9.5, "withheld": "clients train/nll"}
    assert public[1] == {"round": 2, "privacy/epsilon": 0.5}
    assert public[2] == {"round": 3}
    assert rows(tmp_path / "secret.jsonl")[1] == {"round": 2, "clients": 6, "train/nll": 3.125}
    assert stat.S_IMODE((tmp_path / "secret.jsonl").stat().st_mode) == 0o600
    events = b"".join(path.read_bytes() for path in (tmp_path / "tensorboard").iterdir())
    assert b"perplexity" in events
    assert b"nll" not in events
    assert "nll" not in (tmp_path / "metrics.csv").read_text().replace("train/nll", "", 1)


def test_a_resumed_run_has_the_files_of_a_straight_one(tmp_path):
    straight, resumed = tmp_path / "a", tmp_path / "b"
    for directory in (straight, resumed):
        directory.mkdir()
    write(straight, 1, 3)
    write(resumed, 1, 2)
    write(resumed, 2, 3)
    for name in ("metrics.jsonl", "metrics.csv", "secret.jsonl"):
        assert (straight / name).read_bytes() == (resumed / name).read_bytes()
    assert stat.S_IMODE((resumed / "secret.jsonl").stat().st_mode) == 0o600
    (resumed / "secret.jsonl").write_bytes((straight / "secret.jsonl").read_bytes()[:-4])
    assert manager(resumed).rounds_on_disk() == 2


@pytest.mark.parametrize(
    "name, public",
    [
        ("aggregator/inner/dp_query_metrics/clip_norm", True),
        ("finalizer/update_non_finite", True),
        ("aggregator/refused_non_finite", False),
        ("cohort", False),
        ("tokens", False),
        ("something_new", False),
    ],
)
def test_public_metrics(name, public):
    assert withheld.is_public(name) == public
    assert not withheld.is_public(name, has_own_code=True)


def test_metrics_of_own_code_are_withheld(tmp_path):
    one = withheld.WithholdingRelease(
        tmp_path / "secret.jsonl",
        [release.MetricsRelease(tmp_path / "metrics.jsonl", tmp_path / "metrics.csv")],
        has_own_code=True,
    )
    one.restart_after(0)
    row = {"evaluation/perplexity": 9.5, "finalizer/loss": 1.5, "a/dp_query_metrics/sum": 2.5}
    row["rejected"] = 1  # from a metric of the process with this last word
    asyncio.run(one.release(row, 1))
    (public,) = rows(tmp_path / "metrics.jsonl")
    assert public == {
        "round": 1,
        "evaluation/perplexity": 9.5,
        "withheld": "finalizer/loss a/dp_query_metrics/sum rejected",
    }
