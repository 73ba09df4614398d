"""Epsilon as text, for statements and tables. Without the accounting, so its import is quick."""

import math

REASONABLE_EPSILON = 10
NO_PROTECTION_EPSILON = 100


def figure(value: float) -> str:
    """Returns a cost of privacy with two decimals, or with two digits if it is below 0.1."""
    if math.isinf(value):
        return "infinite: no guarantee"
    return f"{value:.2f}" if value >= 0.1 or not value else f"{value:.2g}"


def epsilon_in_short(value: float) -> str:
    """Returns epsilon for the cell of a table. A release never has an epsilon of 0."""
    return figure(value) if value else "below 0.001"


def epsilon_in_words(value: float, *, is_released: bool = True) -> str:
    """Returns epsilon, with a remark if it is so large that the guarantee is weak.

    An epsilon of 0 after a release means that delta alone bounds what one client can change, so it
    is not printed as 0: a reader would take it for perfect privacy. `is_released` is whether any
    round was released.
    """
    if not value and is_released:
        return "below 0.001 (delta alone bounds the effect of one client)"
    if math.isinf(value) or value <= REASONABLE_EPSILON:
        return figure(value)
    if value <= NO_PROTECTION_EPSILON:
        return f"{figure(value)}: weak guarantee"
    return f"{figure(value)}: no protection"
