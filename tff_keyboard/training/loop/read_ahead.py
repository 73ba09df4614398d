"""Prepares the data of the next round while the current one is computed."""

import time
from collections.abc import Callable
from concurrent import futures

from tff_keyboard.algorithms.rounds.round_process import RoundInput

CohortSource = Callable[[int], RoundInput]


class ReadAhead:
    """Calls `cohort_source`, a pure function of the round, one round ahead in a thread.

    Rounds are taken in increasing order up to `last_round`. It is a context manager. An error of
    the source is raised by `take` of that round.
    """

    def __init__(self, cohort_source: CohortSource, last_round: int):
        self._cohort_source = cohort_source
        self._last_round = last_round
        self._thread = futures.ThreadPoolExecutor(1, thread_name_prefix="read-ahead")
        self._pending: dict[int, futures.Future] = {}

    def take(self, round_num: int) -> tuple[RoundInput, float]:
        """Returns the input of `round_num` and its seconds of preparation; starts the next."""
        if round_num not in self._pending:
            self._submit(round_num)
        future = self._pending.pop(round_num)
        result = future.result()
        self._submit(round_num + 1)
        return result

    def __enter__(self) -> "ReadAhead":
        return self

    def __exit__(self, *unused_exception: object) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _submit(self, round_num: int) -> None:
        if round_num <= self._last_round:
            self._pending[round_num] = self._thread.submit(self._prepare, round_num)

    def _prepare(self, round_num: int) -> tuple[RoundInput, float]:
        start = time.perf_counter()
        return self._cohort_source(round_num), time.perf_counter() - start
