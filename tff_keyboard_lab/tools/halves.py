"""Splits pairs and clients in a tuning half and a test half, by the hash of their names.

Also tells the clients that `prepare` holds out.
"""

import hashlib

from tff_keyboard.config.sections.data_config import DataConfig
from tff_keyboard.data.sources import split

HALVES = ("tuning", "test", "all")


def is_in(name: str, half: str) -> bool:
    """Returns whether a name is in a half: tuning if its SHA-256 begins with an even byte."""
    remainders = {"tuning": (0,), "test": (1,), "all": (0, 1)}[half]
    return hashlib.sha256(name.encode()).digest()[0] % 2 in remainders


def is_held_out(client: str) -> bool:
    """Checks if `prepare` holds a client out with the default seed and shares."""
    shares = DataConfig()
    population = split.population_of(
        client,
        seed=shares.seed,
        validation_fraction=shares.validation_fraction,
        held_out_fraction=shares.held_out_fraction,
    )
    return population == "held_out"
