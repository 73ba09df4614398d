"""`[aggregation.privacy]`: the mechanism of differential privacy, chosen by `type`.

To add a mechanism, define a class here and add it to `Privacy`. `privacy/mechanisms/mechanism.py`
defines its effect on a sum of updates, and `privacy/claims/statement.py` its privacy cost.
"""

import dataclasses
import re
from typing import Annotated, Literal, TypeAlias

from tff_keyboard.config.reading.tables import Table
from tff_keyboard.storage import checks


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoPrivacy(Table, path="aggregation.privacy"):
    """No mechanism, no guarantee, no ledger."""

    type: Literal["none"] = "none"


@dataclasses.dataclass(frozen=True, kw_only=True)
class MechanismConfig(Table, path="aggregation.privacy"):
    """The keys of all mechanisms.

    Attributes:
      type: Name of the mechanism.
      clip_norm: L2 bound on one client's whole update (with private FedAtt, on each of its layers),
        in weight units, > 0. If the bound adapts, this is its first value.
      noise_multiplier: Standard deviation of one draw of noise / clip_norm, without a unit, >= 0.
        With 0, updates are clipped and there is no guarantee.
      delta: The delta of the (epsilon, delta) statement, in (0, 1).
      noise_secret: Location of the secret part of the noise key, outside the run directory:
        "env:NAME" or "file:PATH"; "" means none.
      fixed_nonce: 32 hexadecimal digits that replace the run's random nonce and make the noise
        reproducible. For experiments only; the statement then says "simulation".
      noise_cohort_size: 0, or the clients per round of a larger federation whose noise is
        simulated: the noise of the mean is noise_multiplier x clip_norm / noise_cohort_size. This
        is a PROJECTION, and labelled so next to its epsilon: it is about the larger federation,
        which has proportionally more users. Requires the rule "mean", a fixed clip norm, and at
        least `train.clients_per_round`.
    """

    type: str
    clip_norm: checks.Positive = 1.0
    noise_multiplier: checks.NotNegative = 0.0
    delta: checks.OpenShare = 1e-6
    noise_secret: str = ""
    fixed_nonce: str = ""
    noise_cohort_size: checks.FromZero = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        named = not self.noise_secret or bool(re.fullmatch("(env|file):.+", self.noise_secret))
        self.require(named, "noise_secret", "must be 'env:NAME' or 'file:PATH'")
        is_nonce = not self.fixed_nonce or bool(re.fullmatch("[0-9a-f]{32}", self.fixed_nonce))
        self.require(is_nonce, "fixed_nonce", "must be 32 hexadecimal digits")


@dataclasses.dataclass(frozen=True, kw_only=True)
class GaussianConfig(MechanismConfig):
    """Fresh Gaussian noise in every round, with a fixed bound.

    >>> GaussianConfig(clip_norm=0.5, noise_multiplier=0.8).is_discrete
    False

    Attributes:
      distribution: "continuous" uses float64 noise. With "discrete", clients round their clipped
        updates towards zero to a grid of noise_multiplier x clip_norm / 2^20, sums are of integers,
        and the noise is a discrete Gaussian on the same grid. This requires the rule "mean" and
        noise.
    """

    type: Literal["gaussian"] = "gaussian"
    distribution: Literal["continuous", "discrete"] = "continuous"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(
            self.distribution == "continuous" or self.noise_multiplier > 0,
            "distribution",
            "'discrete' requires a noise multiplier > 0, because the grid is a fraction of the "
            "noise",
        )

    @property
    def is_discrete(self) -> bool:
        """Whether the sum and the noise are integers."""
        return self.distribution == "discrete"


@dataclasses.dataclass(frozen=True, kw_only=True)
class GaussianAdaptiveConfig(MechanismConfig):
    """Fresh Gaussian noise in every round, with a bound that follows a noisy quantile.

    Source: Andrew et al. 2021, https://arxiv.org/abs/1905.03871.

    >>> GaussianAdaptiveConfig(noise_multiplier=0.8).target_unclipped_quantile
    0.5

    Attributes:
      target_unclipped_quantile: Share of clients that are not clipped, in (0, 1).
      clip_learning_rate: Speed of the clip norm, > 0: a round changes it by at most exp(rate).
      clipped_count_noise: Standard deviation of the noise on the count of unclipped clients /
        clients_per_round; must be > 0 if the noise multiplier is.
    """

    type: Literal["gaussian_adaptive"] = "gaussian_adaptive"
    target_unclipped_quantile: checks.OpenShare = 0.5
    clip_learning_rate: checks.Positive = 0.2
    clipped_count_noise: checks.NotNegative = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(
            self.clipped_count_noise > 0 or self.noise_multiplier == 0,
            "clipped_count_noise",
            "must be > 0 with noise. Otherwise the count of unclipped clients would be released "
            "without noise",
            "0.05 is usual.",
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TreeConfig(MechanismConfig):
    """DP-FTRL: noise from a binary tree over rounds. Assumes nothing about sampling.

    >>> TreeConfig(noise_multiplier=7.0).type
    'tree'
    """

    type: Literal["tree"] = "tree"


@dataclasses.dataclass(frozen=True, kw_only=True)
class BltConfig(MechanismConfig):
    """DP-FTRL with buffered linear Toeplitz noise, optimised for the schedule.

    >>> BltConfig(noise_multiplier=7.0, buffers=3).type
    'blt'

    Attributes:
      buffers: Number of noise buffers, each as large as the model, 1..4.
    """

    type: Literal["blt"] = "blt"
    buffers: Annotated[int, checks.between(1, 4)] = 2


Privacy: TypeAlias = NoPrivacy | GaussianConfig | GaussianAdaptiveConfig | TreeConfig | BltConfig
