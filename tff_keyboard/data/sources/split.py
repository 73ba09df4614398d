"""Assigns each user to a population by a hash, which needs no memory.

A user's population does not change if other users are added or removed. Hashes for different
purposes are independent: the choice of users is independent of their populations.
"""

import hashlib
import heapq
from collections.abc import Iterable

from tff_keyboard.data.sources import messages


def user_fraction(user: str, *, seed: int, purpose: str) -> float:
    """Returns a pseudo-random number in [0, 1) that depends only on the arguments."""
    digest = hashlib.sha256(f"{purpose}\0{seed}\0{user}".encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:6], "big") / 2**48  # 48 bits: exact in a float


def population_of(
    user: str, *, seed: int, validation_fraction: float, held_out_fraction: float
) -> str:
    """Returns the population of a user.

    Over many users, validation and held-out have the given shares.

    >>> population_of("ann", seed=1, validation_fraction=0.1, held_out_fraction=0.1)
    'validation'
    """
    fraction = user_fraction(user, seed=seed, purpose="population")
    if fraction < held_out_fraction:
        return messages.HELD_OUT
    if fraction < held_out_fraction + validation_fraction:
        return messages.VALIDATION
    return messages.TRAIN


def choose_users(users: Iterable[str], count: int, *, seed: int) -> list[str]:
    """Returns `count` > 0 pseudo-randomly chosen users, sorted by name; all if there are fewer.

    The memory contains `count` names. The choice is independent of the populations with the same
    seed.
    """
    ranked = ((user_fraction(user, seed=seed, purpose="choice"), user) for user in users)
    return sorted(user for _, user in heapq.nsmallest(count, ranked))
