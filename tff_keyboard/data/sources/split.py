"""Assigns each user to a population by a hash, which needs no memory.

A user keeps the population when others come or go. Hashes for different purposes
are independent: choosing users does not choose their population.
"""

import hashlib
import heapq
from collections.abc import Iterable

from tff_keyboard.data.sources import messages


def user_fraction(user: str, *, seed: int, purpose: str) -> float:
    """A number in [0, 1) that looks random, of (user, seed >= 0, purpose) alone."""
    digest = hashlib.sha256(f"{purpose}\0{seed}\0{user}".encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:6], "big") / 2**48  # 48 bits: exact in a float


def population_of(
    user: str, *, seed: int, validation_fraction: float, held_out_fraction: float
) -> str:
    """The population of a user: validation and held-out have the given shares of many users.

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
    """`count` > 0 users that look drawn at random, sorted by name; all if there are fewer.

    Memory: `count` names. The choice is independent of the populations of the same seed.
    """
    ranked = ((user_fraction(user, seed=seed, purpose="choice"), user) for user in users)
    return sorted(user for _, user in heapq.nsmallest(count, ranked))
