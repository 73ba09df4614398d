"""What a training prints: each figure behind its own name."""

import math

import pytest

from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard.training.loop import best_round, training_loop
from tff_keyboard.training.round_lines import RoundLines, closing_lines

ROW = {
    "cohort": "0123",
    "tokens": 2000,
    "client_work/train/nll": 500.0,
    "client_work/train/tokens": 250,
    "evaluation/recall_at_1_no_eos": 0.1234,
    "evaluation/recall_at_3_no_eos": 0.3456,
    "evaluation/perplexity": 98.7,
}
GENERAL = {
    "evaluation/general/recall_at_1_no_eos": 0.0567,
    "evaluation/general/recall_at_3_no_eos": 0.0789,
    "evaluation/general/perplexity": 210.5,
}


KEPT = {"loop_state": best_round.LoopState(best_value=1.0)}


def progress(row, **changes):
    facts = {
        "round_num": 4,
        "total_rounds": 9,
        "resumed_round": 2,
        "row": row,
        "seconds": {"round_seconds": 4.0},
        "is_best": False,
    }
    return training_loop.RoundProgress(**(facts | changes))


def test_secure_sum_shows_its_number_of_clients():
    row = ROW | {"client_work/train/tokens": 0, "clients": 8}
    assert RoundLines(9)._note(row, 1.0) == "8 clients"


def test_figures_of_a_validation(capsys):
    RoundLines(9)(progress(ROW))
    assert capsys.readouterr().out == (
        "round    4  validation: top-1 12.34 %  top-3 34.56 %  perplexity    98.7\n"
    )


def test_the_start_of_a_training_has_a_line(capsys):
    RoundLines(9).show_start(ROW)
    assert capsys.readouterr().out == (
        "the start    validation: top-1 12.34 %  top-3 34.56 %  perplexity    98.7\n"
    )


def test_first_round_of_a_resumed_training_is_marked(capsys):
    lines = RoundLines(9)
    lines(progress(ROW, resumed_round=3))
    lines(progress(ROW, round_num=5, resumed_round=3))
    RoundLines(9)(progress(ROW, round_num=1, resumed_round=0))
    out = capsys.readouterr().out.splitlines()
    assert (
        [line for line in out if "Resuming" in line] == ["Resuming after round 3 of 9."] == out[:1]
    )


def test_a_model_that_has_diverged_is_said(capsys):
    RoundLines(9)(progress(ROW | {"evaluation/perplexity": math.nan}))
    assert "The model has diverged" in capsys.readouterr().out.splitlines()[1]


def test_the_best_round_and_the_general_corpus(capsys):
    RoundLines(9)(progress(ROW | GENERAL, is_best=True))
    assert capsys.readouterr().out.strip() == (
        "round    4  validation: top-1 12.34 %  top-3 34.56 %  perplexity    98.7"
        "  general: top-1  5.67 %  perplexity   210.5  (best so far)"
    )


def test_a_round_without_validation_lasts_on_the_terminal_only(capsys):
    RoundLines(9)(progress({k: v for k, v in ROW.items() if not k.startswith("evaluation")}))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "loss 2.000 nats  500 tokens/s" in captured.err or not captured.err


@pytest.mark.parametrize(
    "changes, is_best, expected",
    [
        ({}, True, ["Model (best, round 2): {run}/model"]),
        ({}, False, ["Model (last): {run}/model"]),
        ({"loop_state": best_round.LoopState()}, True, ["Model (last): {run}/model"]),
        ({"resumed_round": 3}, True, ["{run}: all 3 rounds are already done.", "Model (best"]),
        ({"rounds": 2}, True, ["Validation was best after the last round", "Model (best"]),
        ({"rounds": 2, "stop_reason": "no better"}, True, ["Stopped after round 2", "Model (best"]),
        ({"stop_reason": "no better"}, True, ["Stopped after round 3: no better", "Model (best"]),
        (KEPT, True, ["No round was better on validation", "Model (the start): {run}/model"]),
        (KEPT, False, ["No round was better on validation", "Model (last): {run}/model"]),
    ],
)
def test_how_it_ended(tmp_path, changes, is_best, expected):
    facts = {
        "state": None,
        "model_weights": None,
        "best_model_weights": None,
        "loop_state": best_round.LoopState(best_value=1.0, best_round=2),
        "rounds": 3,
        "resumed_round": 0,
        "stop_reason": "",
    }
    result = training_loop.TrainingResult(**(facts | changes))
    lines = list(closing_lines(result, RunDirectory(tmp_path), is_best=is_best))
    for line, words in zip(lines, [*expected, "Next: tff-keyboard evaluate {run}"], strict=True):
        assert line.startswith(words.format(run=tmp_path))


def test_rejected_rounds_are_shown(tmp_path):
    loop = best_round.LoopState(math.nan, 0, 0, rejected_rounds=2)
    result = training_loop.TrainingResult(None, None, None, loop, 3, 0, "")
    lines = list(closing_lines(result, RunDirectory(tmp_path), is_best=False))
    assert lines[0] == "2 rounds had no usable update and changed nothing."
