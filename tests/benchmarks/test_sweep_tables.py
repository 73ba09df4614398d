"""The tables of the papers' sweeps: what a row may say, how far it went, corpora together."""

import dataclasses
import json
import math

import numpy as np
import pytest

from benchmarks import attention_sweeps, attention_table, sweep_table
from benchmarks.attention_progress import is_flat, progress_of, word_for
from benchmarks.attention_settings import changed
from benchmarks.attention_sweeps import Setting
from tests import jackknife_truth

CONTROL, FEDATT, FEDMED = (
    Setting(rule=rule)
    for rule in (attention_sweeps.CONTROL, attention_sweeps.FEDATT, attention_sweeps.FEDMED)
)


def training(setting, seed, nats, best_round=4, curve=(2.0,) * 32):
    return {
        **{"setting": dataclasses.asdict(setting), "seed": seed, "best_round": best_round},
        **{"adaptive_rounds": 0.25, "effective_clients": 9.5, "clients": 10, "tokens": 1_230_000},
        **{"nats": nats, "words": [100, 100, 100], "parameters": 250_000, "curve": list(curve)},
    }


def test_factors_carry_the_scatter_of_seeds():
    """People agree to the bit, seeds do not: all on one side, and yet not shown to be."""
    nats = {1: 395.0, 2: 380.0, 3: 370.0}
    trainings = [training(CONTROL, seed, [400.0] * 3) for seed in nats]
    trainings += [training(FEDATT, seed, [nats[seed]] * 3) for seed in nats]
    row = next(row for row in attention_table.rows_of(trainings) if row["label"] == "FedAtt")
    gains = np.array([-0.05, -0.2, -0.3])
    reach = jackknife_truth.reach_with_seeds(0.0, gains)
    ends = [row["factor"]["low"], row["factor"]["high"]]
    np.testing.assert_allclose(ends, np.exp([gains.mean() - reach, gains.mean() + reach]))
    assert row["verdict"] == "not distinguishable"


def test_the_table_compares_at_the_same_setting():
    trainings = []
    for seed in (1, 2, 3):
        trainings += [
            training(CONTROL, seed, [400, 410, 420]),
            training(FEDATT, seed, [390, 401, 409]),
            training(changed(FEDMED, top=0.5), seed, [420, 435, 438]),
            training(changed(CONTROL, share=0.5), seed, [300, 310, 320]),
            training(changed(FEDATT, share=0.5), seed, [300 + seed - 2, 310, 320]),
        ]
    rows = attention_table.rows_of(trainings)
    verdicts = {row["label"]: row.get("verdict", "control") for row in rows}
    assert verdicts == {
        "FedAvg, server rate 1.2": "control",
        "FedAtt": "better",
        "FedMed, topK 0.5": "worse",
        "FedAvg, server rate 1.2, C = 0.5": "control",
        "FedAtt, C = 0.5": "not distinguishable",
    }
    assert rows[0]["label"] == "FedAvg, server rate 1.2"
    row = next(row for row in rows if row["label"] == "FedAtt")
    assert row["held_out_perplexity"]["value"] == pytest.approx(np.exp(4.0))
    assert row["factor"]["value"] == pytest.approx(np.exp(-0.1))
    half_row = next(row for row in rows if "topK" in row["label"])
    assert half_row["upload_mb_to_best"] == 5 * 4 * 1.0  # five of ten clients, four rounds, 1 MB
    assert row["rounds_to_target"] == [1, 1, 1]  # 2.0 at once, as the control
    lines = attention_table.markdown(json.loads(json.dumps(rows))).splitlines()
    assert len({line.count("|") for line in lines}) == 1
    (line,) = (line for line in lines if line.startswith("| FedAtt | "))
    assert "0.905 [" in line
    assert "better | 32, 32, 32 | 1.23, 1.23, 1.23 | 0.0, 0.0, 0.0 %: flat | 4, 4, 4 |" in line


STEEP = (9.0, 5.0, 3.0, *(2.0,) * 21)  # three quarters of a curve of 32


@pytest.mark.parametrize(
    "curve, gained, word",
    [
        ((*STEEP, *(2.0,) * 8), 0.0, "flat"),
        ((*STEEP, *(2.1,) * 8), 0.0, "flat"),  # worse again
        ((*STEEP, *(1.981,) * 8), 1 - 1.981 / 2.0, "flat"),
        ((*STEEP, *(2.0,) * 7, 1.979), 1 - 1.979 / 2.0, "still falling"),
        ((9.0, 1.9, *STEEP[2:], *(1.95,) * 8), 0.0, "flat"),  # what counts is the best
        ((*STEEP, *(2.0,) * 7), None, "too short"),
        ((9.0, 5.0, 4.0), None, "too short"),
        ((*STEEP, *(2.0,) * 7, math.inf), None, "diverged"),
        ((*STEEP, *(2.0,) * 7, math.nan), None, "diverged"),
        ((math.inf,), None, "diverged"),
    ],
)
def test_a_curve_is_flat_by_its_last_quarter(curve, gained, word):
    one = training(CONTROL, 1, [1, 2, 3], 4, curve)
    found = progress_of([one])
    assert found["rounds_trained"] == [len(curve)]
    assert found["last_quarter_gained"] == [pytest.approx(gained)]
    assert word_for(found) == word
    assert found["flat"] is is_flat(curve) is (word == "flat")
    json.dumps(found, allow_nan=False)


def test_flat_is_of_all_seeds():
    ends = [training(CONTROL, seed, [1, 2, 3], 4, [*STEEP, *(2.0,) * 8]) for seed in (1, 2)]
    assert progress_of(ends)["flat"]
    falls = training(CONTROL, 3, [1, 2, 3], 33, [*STEEP, *(2.0,) * 8, 1.8]) | {"tokens": None}
    (row,) = attention_table.rows_of([*ends, falls])
    assert row["last_quarter_gained"] == pytest.approx([0.0, 0.0, 0.1])
    assert row["rounds_trained"] == [32, 32, 33]
    assert not row["flat"]
    text = attention_table.markdown([row])
    assert "| 32, 32, 33 | 1.23, 1.23, - | 0.0, 0.0, 10.0 %: still falling | 4, 4, 33 |" in text
    (row,) = attention_table.rows_of([ends[0], training(CONTROL, 2, [1, 2, 3], 1, [9.0, math.inf])])
    assert "| 32, 2 | 1.23, 1.23 | 0.0, - %: diverged |" in attention_table.markdown([row])


def test_rounds_and_bytes_to_the_target():
    top = changed(FEDMED, top=0.5)
    control, slow, never = (
        training(setting, seed, [1, 2, 3], curve=curve)
        for setting, seed, curve in [
            (CONTROL, 1, [9.0, 4.0, 5.0]),
            (top, 1, [9.0, 8.0, 4.2]),  # 4.2 is 1.05 times the control's best
            (top, 2, [9.0, 8.0, 4.21]),
        ]
    )
    rows = attention_table.rows_of([control, slow, never, control | {"seed": 2}])
    assert [row["rounds_to_target"] for row in rows] == [[2, 2], [3, None]]
    assert rows[1]["upload_mb_to_target"] == [5 * 3 * 1.0, None]  # five of ten clients, 1 MB each
    assert "3, never" in attention_table.markdown(rows)


def rows_of(trainings):
    return json.loads(json.dumps(attention_table.rows_of(trainings)))


def test_the_sweeps_table_has_corpora_beside_each_other():
    wide = [changed(each, share=0.5) for each in (CONTROL, FEDATT)]
    small = [changed(each, dim=64, tied=False) for each in (CONTROL, FEDATT)]
    first = [training(CONTROL, 1, [400, 410, 420]), training(FEDATT, 1, [390, 401, 409])]
    first.append(training(changed(FEDATT, norm="spectral"), 1, [1, 2, 3]))  # no point of the sweeps
    second = [training(wide[0], 2, [400, 410, 420], curve=[9 - n / 9 for n in range(32)])]
    second.append(training(wide[1], 2, [410, 419, 431], curve=[2.0] * 9))
    second.append(training(CONTROL, 2, [1, 2, 3]))  # FedAtt lacks this point
    second += [training(each, 1, [400, 410, 420]) for each in small]
    second.append(training(changed(CONTROL, tied=False), 1, [1, 2, 3]))
    second.append(training(changed(FEDATT, tied=False), 2, [1, 2, 3]))  # no seed in common
    rows = [rows_of(each) for each in (first, second)]
    lines = sweep_table.table(["by person", "IID"], rows).splitlines()
    assert lines[0].startswith("|  | by person: FedAvg(ε), FedAtt | factor; by seed | seeds | IID:")
    assert lines[0].endswith(" seeds | on all corpora |")
    assert len({line.count("|") for line in lines}) == 1
    assert lines[2].startswith("| C = 0.1, E = 5, ε = 1.2, size 32, tied | 60.3, 54.6 | 0.905 [")
    assert lines[2].endswith("0.905 .. 0.905 one seed | 1 |  |  | 0 | too few seeds |")
    assert lines[3].startswith(
        "| C = 0.5 |  |  | 0 | 60.3 (still falling), 66.7 (too short) | 1.105 ["
    )
    assert lines[4].startswith("| size 64, untied |  |  | 0 | 60.3, 60.3 | 1.000 [")
    assert len(lines) == 5


BETTER, WORSE, SAME = ([390, 401, 409], [410, 419, 431], [400, 410, 420])


def pair(nats, seeds=3):
    """(control's row, FedAtt's row)."""
    trainings = []
    for seed in range(1, seeds + 1):
        trainings += [training(CONTROL, seed, SAME), training(FEDATT, seed, nats)]
    return tuple(rows_of(trainings))


def no_verdict(both):
    """As of a single person, who has no interval."""
    return both[0], {**both[1], "verdict": ""}


@pytest.mark.parametrize(
    "pairs, together",
    [
        ([pair(BETTER), pair(BETTER)], "better"),
        ([pair(WORSE), pair(WORSE)], "worse"),
        ([pair(BETTER)], "better"),
        ([pair(BETTER), pair(WORSE)], "not distinguishable"),
        ([pair(BETTER), pair(SAME)], "not distinguishable"),
        ([pair(SAME), pair(SAME)], "not distinguishable"),
        ([no_verdict(pair(BETTER))] * 2, "not distinguishable"),
        ([pair(BETTER), pair(BETTER, seeds=2)], "too few seeds"),
        ([pair(BETTER), None], "too few seeds"),
    ],
)
def test_corpora_together_say_what_each_of_them_says(pairs, together):
    assert sweep_table.on_all_corpora(pairs) == together
    names = [str(i) for i in range(len(pairs))]
    lines = sweep_table.table(names, [each or [] for each in pairs]).splitlines()
    assert lines[2].endswith(f" | {together} |")


def test_the_sweeps_table_reads_what_the_sweeps_wrote(tmp_path, capsys):
    path = tmp_path / "sweeps_by_person.json"
    path.write_text(json.dumps({"rows": pair(WORSE), "at_best_rate": []}))
    sweep_table.main([str(path)])
    points, at_best = capsys.readouterr().out.split("\n\n")
    assert points.startswith("|  | by_person: FedAvg(ε), FedAtt |")
    assert "worse | 3 | worse |" in points
    assert at_best.startswith("| corpus | rule | client rates tried |")
    path.write_text(json.dumps(pair(WORSE)))  # as it once was
    with pytest.raises(ValueError, match="--table"):
        sweep_table.main([str(path)])
