"""Measures where the time of a round goes."""

import time

TIMING_COLUMNS = (
    "data_seconds",  # preparing the cohort, mostly hidden behind the round before
    "data_wait_seconds",  # the part that was not hidden
    "compute_seconds",  # clients, and aggregation where it cannot be told apart
    "aggregation_seconds",  # merging sub-rounds and the server step
    "evaluation_seconds",
    "saving_seconds",  # rows and checkpoint
    "round_seconds",  # all of the round
)


class RoundClock:
    """Seconds of the parts of one round, which begins with it."""

    def __init__(self) -> None:
        self._start = self._last = time.perf_counter()
        self._seconds: dict[str, float] = {}

    def restart(self) -> None:
        """The part that is measured next begins now."""
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        """Ends the part `name`, and begins the next."""
        now = time.perf_counter()
        self.set(name, now - self._last)
        self._last = now

    def set(self, name: str, seconds: float) -> None:
        """Enters what was measured elsewhere."""
        self._seconds[name] = seconds

    def move(self, source: str, destination: str, seconds: float | None) -> None:
        """Some seconds of one part were another's; None where that cannot be told."""
        if seconds is not None:
            self._seconds[source] -= seconds
            self._seconds[destination] = seconds

    def seconds(self) -> dict[str, float | None]:
        """Seconds by `TIMING_COLUMNS`, rounded to microseconds; None for what was not measured."""
        total = {"round_seconds": time.perf_counter() - self._start}
        measured = self._seconds | total
        return {
            name: round(measured[name], 6) if name in measured else None for name in TIMING_COLUMNS
        }
