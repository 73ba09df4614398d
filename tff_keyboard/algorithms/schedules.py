"""Learning rates that change from round to round: their factors.

    warm-up   t / warmup    for t < warmup
    constant  1
    cosine    lowest + (1 - lowest) (1 + cos(pi p)) / 2,
              p = (t - warmup) / (rounds - warmup), at most 1

A factor depends only on the number of the round, so a stopped and resumed run trains with the same
rates. Cosine: Loshchilov & Hutter 2017, eq. 5 without restarts, https://arxiv.org/abs/1608.03983.
`rounds/scheduled.py` sets the rates.
"""

import math

from tff_keyboard.parts import schedule as tables


def factor(schedule: tables.Schedule, round_num: int) -> float:
    """Returns the factor of the learning rate in round `round_num` >= 1.

    >>> cosine = tables.Cosine(rounds=9, warmup_rounds=4, lowest=0.1)
    >>> [round(factor(cosine, t), 3) for t in (1, 4, 5, 9, 100)]
    [0.25, 1.0, 0.914, 0.1, 0.1]

    Raises:
      ValueError: `round_num` is less than 1, or a cosine has no number of rounds
        (`config_file.as_run`).
    """
    if round_num < 1:
        raise ValueError(f"`round_num` must be >= 1, got {round_num}.")
    if round_num < schedule.warmup_rounds:
        return round_num / schedule.warmup_rounds
    match schedule:
        case tables.Constant():
            return 1.0
        case tables.Cosine(rounds=0):
            raise ValueError(
                "`schedule.rounds` must be > 0, got 0: it is the number of rounds of the cosine."
            )
        case tables.Cosine():
            span = schedule.rounds - schedule.warmup_rounds
            progress = min(1.0, (round_num - schedule.warmup_rounds) / span)
            return schedule.lowest + (1 - schedule.lowest) * (1 + math.cos(math.pi * progress)) / 2


def is_constant(schedule: tables.Schedule) -> bool:
    """Checks whether the factor is 1 in all rounds."""
    return isinstance(schedule, tables.Constant) and schedule.warmup_rounds <= 1
