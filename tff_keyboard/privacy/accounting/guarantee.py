"""The guarantee of a mechanism: epsilon, delta and their meaning."""

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class Guarantee:
    """The (epsilon, delta) of one mechanism after some rounds.

    Attributes:
      epsilon: Epsilon of the statement; infinite without noise.
      delta: Delta of the statement, in (0, 1).
      rho: zCDP parameter; None for sampled Gaussians, which have no useful one.
      adjacency: The meaning of "neighbouring", in words.
      method: The computation of epsilon: "RDP", "zCDP, RDP conversion", ...
    """

    epsilon: float
    delta: float
    adjacency: str
    method: str
    rho: float | None = None
