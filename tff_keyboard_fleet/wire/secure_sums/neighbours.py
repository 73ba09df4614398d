"""The graph of neighbours, how likely a sum fails, and what a server can learn from one.

Devices stand in a circle in random order and each has the `degree` nearest as neighbours: a Harary
graph, connected while fewer than `degree` drop out side by side. Source: Bell et al. 2020, section
3, https://eprint.iacr.org/2020/704.

A server that follows the protocol but records what it sees (curious)
--------------------------------------------------------------------

It gets one kind of share from each honest device, the kind that fits the truth. To get both secrets
of a device it needs `threshold` colluding neighbours around that device, and chance places them:
`curious_exposure`.

A server that lies
------------------

The server chooses everything: which neighbours each device gets, which envelopes it passes on, what
it tells each device about the others, in what order, and how often it begins again. It cannot sign
for a device that does not collude. Let

    d = degree, t = threshold,
    c = the most colluding devices among the d neighbours of any honest device,

and let all neighbours be real devices, which is what `--known-devices` checks.

    If 2 t > d + c, every sum that the server learns has the vectors of at least t - c + 1 honest
    devices. If 2 t <= d + c, it can learn a single vector.

Proof. In the following v and u are honest. Secrets are computationally hidden until t shares are
known. A device deals its shares to its d neighbours, of which at most c collude.

(a) The server never gets both secrets of v. A neighbour that is honest reveals one kind of share of
    v, because it fixes its list before it reveals and answers one list only. A colluding one gives
    both. Both secrets need 2 t shares, and at most (d - c) + 2 c = d + c < 2 t are given.

(b) If u revealed shares, the mask key of u stays secret. u holds t confirmations of devices that
    have its shares, so at least t - c honest ones signed that they count u as reported. Those give
    shares of its own secret only. Shares of the mask key can come from the remaining d - (t - c)
    devices at most, and d - t + c < t.

(c) If the own secret of v is opened, the vector of v still has the masks that it shares with t - c
    honest devices, and their keys are secret. At least t - c honest devices u gave a share of the
    own secret. Each of them held the signature of v that its vector has the mask shared with u.
    Each of them revealed, so by (b) the mask key of u is secret; by (a) that of v is secret, too.

(d) Draw an edge between v and u if both sent a vector with their common mask and both mask keys are
    secret. That mask is in these two vectors and in no other, so the server learns nothing that
    splits a connected component. If the own secret of some device in a component is secret, the
    component is hidden as a whole. Otherwise all its own secrets are opened, and by (c) each device
    has t - c edges. So the component has at least t - c + 1 devices, and the server learns at most
    the sum of their vectors.

Theorems
--------

Bonawitz et al. 2017, theorem 6.5 (active adversary with the server, complete graph, PKI, random
oracle): if 2 t > n + n_C, the server learns one sum of at least t - n_C honest devices. There each
of the n devices holds a share of its own, so n is d + 1 and the threshold is t + 1, which gives the
same t - c + 1.
Theorem 6.3 covers a curious server. Neither theorem covers a sparse graph. The theorem numbers are
cited from memory, because the paper could not be fetched.

Bell et al. 2020 covers sparse graphs in section 4, with a semi-malicious server: it is honest while
keys are exchanged, and devices draw their neighbours at random. Here the server chooses the graph,
so its theorems on random graphs do not apply. The proof above takes c as all colluding devices and
holds for every graph. The result is the paper's alpha-summation: a lying server may learn the sums
of several groups instead of one. `docs/fleet/threat_model.md` compares all assumptions.

Nothing is said about differences between the sums of several rounds; a device therefore sends a
vector trained on a text once (`tff_keyboard_fleet/device/device.py`).

Without `--known-devices` the server can invent all neighbours of a device. Then c = d, and nothing
is protected from a server that lies.
"""

import math
import secrets
from collections.abc import Hashable, Sequence
from typing import TypeVar

_Device = TypeVar("_Device", bound=Hashable)


def circle(
    devices: Sequence[_Device], degree: int, *, is_ordered: bool = False
) -> dict[_Device, list[_Device]]:
    """Returns the neighbours of each device, in the order of the circle. The relation is symmetric.

    Args:
      devices: The devices.
      degree: Even, and less than the number of devices. With an odd degree, some devices would have
        one neighbour more.
      is_ordered: Whether the devices are given in the order of the circle. Otherwise the order is
        drawn at random.

    Raises:
      ValueError: If the degree does not fit.
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
        device: [order[(index + step) % count] for step in reach]
        for index, device in enumerate(order)
    }


def failure(count: int, degree: int, threshold: int, lost: int) -> float:
    """Bounds the chance that some secret of `count` devices cannot be recovered.

    `lost` of them drop out at random. A secret needs `threshold` of `degree` neighbours. The bound
    is 1 if there are not more devices than neighbours.

    >>> failure(100, 60, 31, 30) < 1e-6
    True
    """
    if degree >= count:
        return 1.0
    return min(1.0, count * _tail(count - 1, lost, degree, degree - threshold + 1))


def curious_exposure(count: int, degree: int, threshold: int, colluding: int) -> float:
    """Bounds the chance that a curious server gets both secrets of some device.

    The server follows the protocol. `colluding` of the `count` devices tell it all that they know.

    >>> curious_exposure(130, 56, 30, 29)
    0.0
    >>> curious_exposure(130, 56, 30, 35) < 1e-6
    True
    """
    return min(1.0, count * _tail(count - 1, colluding, degree, threshold))


def min_honest_in_sum(degree: int, threshold: int, colluding: int) -> int:
    """Returns the smallest number of honest devices in a sum that a lying server can learn.

    The number is exact: see the proof above, and `tff_keyboard_fleet/tests/wire/secure_sums/` for
    servers that reach it.

    Args:
      degree: Number of neighbours of a device.
      threshold: Number of shares that recover a secret.
      colluding: The most colluding devices among the neighbours of an honest device. The server
        chooses the neighbours, so this is the number of all colluding devices, up to `degree`.

    >>> min_honest_in_sum(56, 30, colluding=0), min_honest_in_sum(56, 30, colluding=3)
    (31, 28)
    >>> min_honest_in_sum(56, 30, colluding=4)
    1
    """
    return threshold - colluding + 1 if 2 * threshold > degree + colluding else 1


def _tail(population: int, marked: int, drawn: int, least: int) -> float:
    """Returns P(at least `least` marked among those drawn without replacement)."""
    draws = math.comb(population, drawn)
    ways = sum(
        math.comb(marked, i) * math.comb(population - marked, drawn - i)
        for i in range(max(0, least), min(marked, drawn) + 1)
    )
    return ways / draws
