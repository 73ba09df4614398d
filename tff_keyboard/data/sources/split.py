"""Assigns each user to a population by a hash, which needs no memory.

A user keeps the population when others come or go. Hashes for different purposes
are independent: choosing users does not choose their population.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable

from tff_keyboard.data.sources import messages


def user_fraction(user: str, *, seed: int, purpose: str) -> float:
    """A number in [0, 1) that looks random, of (user, seed, purpose) alone.

    Args:
      seed: Seed of the split, >= 0.
    """
    digest = hashlib.sha256(f"{purpose}\0{seed}\0{user}".encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:6], "big") / 2**48  # 48 bits: exact in a float


def population_of(
    user: str, *, seed: int, validation_fraction: float, held_out_fraction: float
) -> str:
    """The population of a user.

    >>> population_of("ann", seed=1, validation_fraction=0.1, held_out_fraction=0.1)
    'validation'

    Args:
      seed: Seed of the split, >= 0; another seed is another split.
      validation_fraction: Expected share of users in "validation".
      held_out_fraction: Expected share of users in "held_out".

    Returns:
      "train", "validation" or "held_out".
    """
    fraction = user_fraction(user, seed=seed, purpose="population")
    if fraction < held_out_fraction:
        return messages.HELD_OUT
    if fraction < held_out_fraction + validation_fraction:
        return messages.VALIDATION
    return messages.TRAIN


def choose_users(users: Iterable[str], count: int, *, seed: int) -> list[str]:
    """`count` users that look drawn at random, sorted by name; all of them if there are fewer.

    Memory: `count` names.

    Args:
      count: Number of users to choose, > 0.
      seed: Seed of the choice, >= 0; independent of the seed's populations.
    """
    ranked = ((user_fraction(user, seed=seed, purpose="choice"), user) for user in users)
    return sorted(user for _, user in heapq.nsmallest(count, ranked))
