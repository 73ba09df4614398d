"""Splits pairs and clients in a tuning half and a test half, by the hash of their names."""

import hashlib

HALVES = ("tuning", "test", "all")


def is_in(name: str, half: str) -> bool:
    """Returns whether a name is in a half: tuning if its SHA-256 begins with an even byte."""
    remainders = {"tuning": (0,), "test": (1,), "all": (0, 1)}[half]
    return hashlib.sha256(name.encode()).digest()[0] % 2 in remainders
