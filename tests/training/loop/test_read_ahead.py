"""Inputs come in order, one ahead, and errors come out where the round is taken."""

import threading

import pytest

from tff_keyboard.algorithms.rounds.round_process import RoundInput
from tff_keyboard.training.loop.read_ahead import ReadAhead


def test_prepares_the_next_round_while_this_one_is_used():
    prepared = {n: threading.Event() for n in range(1, 5)}

    def source(round_num):
        prepared[round_num].set()
        return RoundInput([round_num])

    with ReadAhead(source, last_round=3) as inputs:
        assert inputs.take(1)[0].datasets == [1]
        assert prepared[2].wait(10)  # nobody took it yet
        assert not prepared[3].is_set()
        assert inputs.take(2)[0].datasets == [2]
        round_input, seconds = inputs.take(3)
        assert round_input.datasets == [3]
        assert seconds >= 0
    assert not prepared[4].is_set()


def test_starts_anywhere():
    with ReadAhead(lambda n: RoundInput([n]), last_round=9) as inputs:
        assert inputs.take(7)[0].datasets == [7]
        assert inputs.take(8)[0].datasets == [8]


def test_errors_belong_to_their_round():
    def source(round_num):
        if round_num == 2:
            raise RuntimeError("no such client")
        return RoundInput([])

    with ReadAhead(source, last_round=3) as inputs:
        inputs.take(1)
        with pytest.raises(RuntimeError, match="no such client"):
            inputs.take(2)
