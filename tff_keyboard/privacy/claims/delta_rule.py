"""Warns of a delta that is too large for the population.

A mechanism that publishes the whole text of each client with probability delta, and otherwise
nothing, is (0, delta)-private. A guarantee at this delta does not exclude it, however small its
epsilon is. With n clients, it publishes the text of delta * n clients on average, and of at least
one client with probability at most delta * n. A guarantee about every client therefore needs

    delta <= 1 / (10 n)

so that such a mechanism would most probably (90 %) publish no text at all. Ponomareva et al. 2023
(https://arxiv.org/abs/2303.00654) require that delta is much smaller than 1 / n. The factor 10 is
the choice of this project.
"""

import math

from tff_keyboard.privacy.ledger.ledger_header import CHECK_IN, LedgerHeader

MAX_EXPECTED_CLIENTS = 0.1  # delta * population


def delta_caveats(header: LedgerHeader, delta: float) -> list[str]:
    """Returns the caveat about a delta that is too large, or about an unknown population; or [].

    Args:
      header: The header of the run. With a simulated cohort, the larger population counts.
      delta: Delta of the statement, including a private vocabulary.
    """
    if header.sampling == CHECK_IN:
        return [
            f"Delta {delta:g}: the number of devices is unknown. The guarantee is meaningful only "
            f"for delta <= 1 / (10 x population), that is, for at most {0.1 / delta:,.0f} devices."
        ]
    population = header.projected.population
    if delta * population <= MAX_EXPECTED_CLIENTS * (1 + 1e-9):
        return []
    largest = 10.0 ** math.floor(math.log10(MAX_EXPECTED_CLIENTS / population) + 1e-9)
    way_out = f"Set `aggregation.privacy.delta` to at most {largest:g} (docs/privacy.md)."
    if delta * population >= 1:
        return [
            f"Delta {delta:g} is not below 1 / population = {1 / population:.2g}: it allows "
            f"revealing the whole text of one client with probability {delta:g} for each client, "
            f"which is {delta * population:.3g} of the {population} clients on average, whatever "
            f"epsilon is. {way_out}"
        ]
    return [
        f"Delta {delta:g} is not much smaller than 1 / population = {1 / population:.2g}: it "
        f"allows revealing the whole text of some client with probability up to "
        f"{delta * population:.2g}, whatever epsilon is. {way_out}"
    ]
