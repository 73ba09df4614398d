"""Who masks with whom, and how likely a round then fails or shows too much.

Devices stand in a circle in random order and each has the `degree` nearest as neighbours: a Harary
graph, connected while fewer than `degree` drop out side by side. Source: Bell et al. 2020, section
3, https://eprint.iacr.org/2020/704.
"""

import math
import secrets
from collections.abc import Hashable, Sequence
from typing import TypeVar

_Device = TypeVar("_Device", bound=Hashable)


def circle(
    devices: Sequence[_Device], degree: int, *, is_ordered: bool = False
) -> dict[_Device, list[_Device]]:
    """The neighbours of each device, in the order of the circle; the relation is symmetric.

    Args:
      degree: Even, and less than the number of devices; with odd numbers some would have one more.
      is_ordered: Whether the devices are given as they stand; else their order is drawn.

    Raises:
      ValueError: The degree does not fit.
    """
    count = len(devices)
    if degree % 2 or not 2 <= degree < count:
        raise ValueError(
            f"The degree must be even and in 2..{count - 1} of {count} devices, got {degree}."
        )
    order = list(devices)
    if not is_ordered:
        secrets.SystemRandom().shuffle(order)
    reach = [step for step in range(-degree // 2, degree // 2 + 1) if step]
    return {
        device: [order[(place + step) % count] for step in reach]
        for place, device in enumerate(order)
    }


def failure(count: int, degree: int, threshold: int, lost: int) -> float:
    """A bound on the chance that some secret of `count` devices cannot be recovered.

    `lost` of them drop out at random; a secret needs `threshold` of `degree` neighbours.

    >>> failure(100, 60, 31, 30) < 1e-6
    True
    """
    return min(1.0, count * _tail(count - 1, lost, degree, degree - threshold + 1))


def exposure(count: int, degree: int, threshold: int, colluding: int) -> float:
    """A bound on the chance that a server with so many devices of its own can unmask some other.

    Of a server that tells neighbours different lists: an honest one gives one kind of share, a
    colluding one both, so it has both secrets of a device if degree + colluding neighbours >= 2
    threshold. With threshold degree // 2 + 1 that is two of them: against such a server the margin
    is one. From one that follows the protocol, `threshold` colluding neighbours are needed.

    >>> exposure(100, 60, 36, 10)
    0.0
    """
    return min(1.0, count * _tail(count - 1, colluding, degree, 2 * threshold - degree))


def _tail(population: int, marked: int, drawn: int, least: int) -> float:
    """P(at least `least` marked among those drawn without replacement)."""
    whole = math.comb(population, drawn)
    ways = sum(
        math.comb(marked, i) * math.comb(population - marked, drawn - i)
        for i in range(max(0, least), min(marked, drawn) + 1)
    )
    return ways / whole
