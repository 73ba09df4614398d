"""Limits the load of the server: requests of each device, and the time until devices ask again."""

import collections
import math
import random
import threading
from collections.abc import Callable

from tff_keyboard_fleet.wire.messages import Refused

REQUESTS_A_MINUTE = 120  # of one device; also the largest burst after a pause
MAX_DEVICES = 100_000  # number of latest devices that are remembered
CHECK_INS_A_SECOND = 50  # rate to which returning devices are spread


class RateLimit:
    """A bucket of requests for each device, refilled evenly."""

    def __init__(self, clock: Callable[[], float]):
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: collections.OrderedDict[str, tuple[float, float]] = collections.OrderedDict()

    def check(self, device: str) -> None:
        """Counts a request.

        Raises:
          Refused: "busy", if the device sent too many.
        """
        now = self._clock()
        with self._lock:
            tokens, since = self._buckets.pop(device, (float(REQUESTS_A_MINUTE), now))
            passed = max(now - since, 0.0)  # the clock may have been set back
            tokens = min(tokens + passed * REQUESTS_A_MINUTE / 60, REQUESTS_A_MINUTE)
            is_over = tokens < 1
            self._buckets[device] = (tokens if is_over else tokens - 1, now)
            if len(self._buckets) > MAX_DEVICES:
                self._buckets.popitem(last=False)
        if is_over:
            raise Refused("busy", f"more than {REQUESTS_A_MINUTE} requests per minute", 5)


class PaceSteering:
    """Spreads devices that got no seat: they return soon, but not too many at a time.

    Args:
      min_seconds: Minimum wait.
      clock: Returns seconds since 1970.
    """

    def __init__(self, min_seconds: float, clock: Callable[[], float]):
        self._min_seconds = min_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._sent_away: collections.deque[float] = collections.deque(maxlen=MAX_DEVICES)

    def seconds(self) -> int:
        """Returns the wait for one more device, drawn so that waves of check-ins flatten.

        It is longer the more devices were sent away within the last `min_seconds`.
        """
        now = self._clock()
        with self._lock:
            self._sent_away.append(now)
            while not now - self._min_seconds <= self._sent_away[0] <= now:
                self._sent_away.popleft()
            window = max(self._min_seconds, len(self._sent_away) / CHECK_INS_A_SECOND)
        return math.ceil(self._min_seconds + random.random() * window)
