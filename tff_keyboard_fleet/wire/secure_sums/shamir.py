"""Shamir's secret sharing over the integers modulo the Mersenne prime 2^521 - 1.

A secret is the value at 0 of a random polynomial. `threshold` points recover it; fewer reveal
nothing. Source: Shamir 1979, https://doi.org/10.1145/359168.359176.
"""

import secrets
from collections.abc import Mapping, Sequence

PRIME = 2**521 - 1
SECRET_BYTES, SHARE_BYTES = 32, 66


def split(secret: bytes, *, threshold: int, points: Sequence[int]) -> list[bytes]:
    """Returns a share for each of the points, which are distinct and >= 1.

    Raises:
      ValueError: If the secret does not have 32 bytes, or there are fewer points than the
        threshold.
    """
    if len(secret) != SECRET_BYTES or not 1 <= threshold <= len(set(points)) == len(points):
        raise ValueError(
            f"A secret must be {SECRET_BYTES} bytes, got {len(secret)}, and distinct points at "
            f"least the threshold {threshold}, got {len(set(points))}."
        )
    polynomial = [int.from_bytes(secret, "big")]
    polynomial += [secrets.randbelow(PRIME) for _ in range(threshold - 1)]
    return [_value(polynomial, x).to_bytes(SHARE_BYTES, "big") for x in points]


def join(shares: Mapping[int, bytes]) -> bytes | None:
    """Recovers a secret from shares by point; None if they are not shares of one 32-byte secret.

    At least the threshold of shares is needed. With fewer, the answer is None, except with a
    probability of 2^-265.
    """
    values = {x: int.from_bytes(share, "big") for x, share in shares.items()}
    secret = 0
    for x, y in values.items():
        above = below = 1
        for other in values:
            if other != x:
                above = above * other % PRIME
                below = below * (other - x) % PRIME
        secret = (secret + y * above * pow(below, -1, PRIME)) % PRIME
    return secret.to_bytes(SHARE_BYTES, "big")[-SECRET_BYTES:] if secret < 2**256 else None


def _value(polynomial: Sequence[int], x: int) -> int:
    """Returns the value of a polynomial at x, modulo the prime. The constant comes first."""
    result = 0
    for coefficient in reversed(polynomial):
        result = (result * x + coefficient) % PRIME
    return result
