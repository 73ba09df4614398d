"""Measures the parts of a round's time."""

import time

TIMING_COLUMNS = (
    "data_seconds",  # preparation of the cohort, mostly during the previous round
    "data_wait_seconds",  # the part after the previous round
    "compute_seconds",  # clients, and aggregation if it is not measured separately
    "aggregation_seconds",  # merging sub-rounds and the server step
    "evaluation_seconds",
    "saving_seconds",  # rows and checkpoint
    "round_seconds",  # all of the round
    "round_cpu_seconds",  # CPU time of all threads of this process during the round
)


class RoundClock:
    """Seconds of the parts of one round. The clock starts at creation."""

    def __init__(self) -> None:
        self._start = self._last = time.perf_counter()
        self._cpu_start = time.process_time()
        self._seconds: dict[str, float] = {}

    def restart(self) -> None:
        """Starts the next measured part now."""
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        """Ends the part `name`, and begins the next one."""
        now = time.perf_counter()
        self.set(name, now - self._last)
        self._last = now

    def set(self, name: str, seconds: float) -> None:
        """Enters seconds that were measured elsewhere."""
        self._seconds[name] = seconds

    def move(self, source: str, destination: str, seconds: float | None) -> None:
        """Moves seconds from one part to another; does nothing for None."""
        if seconds is not None:
            self._seconds[source] -= seconds
            self._seconds[destination] = seconds

    def seconds(self) -> dict[str, float | None]:
        """Returns seconds by `TIMING_COLUMNS`, rounded to microseconds; None if not measured."""
        total = {
            "round_seconds": time.perf_counter() - self._start,
            "round_cpu_seconds": time.process_time() - self._cpu_start,
        }
        measured = self._seconds | total
        return {
            name: round(measured[name], 6) if name in measured else None for name in TIMING_COLUMNS
        }
