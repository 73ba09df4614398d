"""When a run first reached a share of the control's last validation: the round, and the bytes sent.

The metric is one of which more is better. Validation is on the validation clients of the run.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tff_keyboard.storage import metrics_rows
from tff_keyboard_lab.study.results import communication


class Progress(NamedTuple):
    """A metric at each validation of a run."""

    rounds: list[int]
    values: list[float]
    # Sent in both directions up to each of these rounds; None for a private run, which withholds it
    total_bytes: list[int | None]


class Reached(NamedTuple):
    """The first validation that reached a value."""

    rounds: int
    total_bytes: int | None  # None for a private run


def of_rows(
    rows: Sequence[metrics_rows.Row], metric: str, *, sends: bool, is_private: bool = False
) -> Progress:
    """Returns the progress in the metrics of a run.

    Args:
      rows: All rows of the run.
      metric: Name of the metric, without `evaluation/`.
      sends: Whether clients and server send anything; false for a training on a server.
      is_private: Whether the run withholds the exact number of bytes.
    """
    rounds, values = metrics_rows.series(rows, f"evaluation/{metric}")

    def sent_until(number: int) -> int | None:
        if is_private:
            return None
        return communication.account(rows[:number], parameters=0).total_bytes if sends else 0

    sent = [sent_until(number) for number in rounds]
    return Progress(rounds, values, sent)


def first_reached(progress: Progress, target: float) -> Reached | None:
    """Returns the first validation with at least `target`, or None.

    >>> first_reached(Progress([10, 20], [0.1, 0.3], [500, 1000]), 0.2)
    Reached(rounds=20, total_bytes=1000)
    """
    for number, value, sent in zip(*progress, strict=True):
        if value >= target:
            return Reached(number, sent)
    return None


def reached_by_seed(
    runs: Mapping[int, Progress], controls: Mapping[int, Progress], share: float
) -> dict[int, Reached | None]:
    """Returns seed -> when a run reached `share` of the last value of the control of this seed.

    Seeds without a control that validated are left out.
    """
    return {
        seed: first_reached(progress, share * controls[seed].values[-1])
        for seed, progress in runs.items()
        if seed in controls and controls[seed].values
    }
