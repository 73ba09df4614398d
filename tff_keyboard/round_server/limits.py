"""How much is asked of the server: a bound for each device, and when who has no seat returns."""

import collections
import math
import random
import threading
from collections.abc import Callable

from tff_keyboard.wire.messages import Refused

REQUESTS_A_MINUTE = 120  # of a device; so many at once after a pause
MOST_DEVICES = 100_000  # that are remembered, the latest
CHECK_INS_A_SECOND = 50  # what those who were sent away are spread to


class RateLimit:
    """A bucket of requests for each device, refilled evenly."""

    def __init__(self, clock: Callable[[], float]):
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: collections.OrderedDict[str, tuple[float, float]] = collections.OrderedDict()

    def check(self, device: str) -> None:
        """Counts a request.

        Raises:
          Refused: "busy": the device sent too many.
        """
        now = self._clock()
        with self._lock:
            left, since = self._buckets.pop(device, (float(REQUESTS_A_MINUTE), now))
            passed = max(now - since, 0.0)  # clocks are set back
            left = min(left + passed * REQUESTS_A_MINUTE / 60, REQUESTS_A_MINUTE)
            is_over = left < 1
            self._buckets[device] = (left if is_over else left - 1, now)
            if len(self._buckets) > MOST_DEVICES:
                self._buckets.popitem(last=False)
        if is_over:
            raise Refused("busy", f"more than {REQUESTS_A_MINUTE} requests a minute", 5)


class Pace:
    """When devices are to ask again: soon, but no more of them at a time than can be answered.

    Args:
      least_seconds: What nobody returns before.
    """

    def __init__(self, least_seconds: float, clock: Callable[[], float]):
        self._least = least_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._sent_away: collections.deque[float] = collections.deque(maxlen=MOST_DEVICES)

    def seconds(self) -> int:
        """For one more device: spread evenly, so that waves of check-ins flatten."""
        now = self._clock()
        with self._lock:
            self._sent_away.append(now)
            while not now - self._least <= self._sent_away[0] <= now:
                self._sent_away.popleft()
            window = max(self._least, len(self._sent_away) / CHECK_INS_A_SECOND)
        return math.ceil(self._least + random.random() * window)
