"""`[aggregation.privacy]`: the mechanism of differential privacy, chosen by `type`.

To add a mechanism, define a class here and add it to `Privacy`. `privacy/mechanisms/mechanism.py`
defines its effect on a sum of updates, and `privacy/claims/statement.py` its privacy cost.
"""

import dataclasses
import re
from typing import Annotated, Literal, TypeAlias

from tff_keyboard.parts.tables import Table
from tff_keyboard.storage import checks


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoPrivacy(Table, path="aggregation.privacy"):
    """Trains without differential privacy: there is no noise, no guarantee and no ledger."""

    type: Literal["none"] = "none"


@dataclasses.dataclass(frozen=True, kw_only=True)
class MechanismConfig(Table, path="aggregation.privacy"):
    """The keys of all mechanisms.

    Attributes:
      type: Name of the mechanism.
      clip_norm: Bound on the L2 norm of a client's whole update, in units of the model's weights.
        With private FedAtt it bounds each layer instead. In the mechanisms with an adaptive bound,
        this is the bound of the first round.
      noise_multiplier: Standard deviation of one draw of noise, divided by the clip norm. Has no
        unit. With 0, updates are clipped, but there is no noise and no guarantee.
      delta: Delta of the (epsilon, delta) guarantee. It should be at most
        1 / (10 x number of clients); otherwise the plan and the statement print a remark.
      noise_secret: Where the secret part of the noise key is: "env:NAME" or "file:PATH", outside
        the run directory. "" means that there is no secret part.
      fixed_nonce: 32 hexadecimal digits that replace the random nonce of the run and make its noise
        reproducible. For experiments only: the privacy statement then says "simulation".
      noise_cohort_size: Number of clients per round in a larger federation whose noise is
        simulated; 0 simulates none. The noise of the mean then has standard deviation
        noise_multiplier x clip_norm / noise_cohort_size. The resulting epsilon is a PROJECTION, and
        is labelled so: it holds for the larger federation, which has proportionally more users.
        Requires the rule "mean", a fixed clip norm, and a value of at least
        `train.clients_per_round`.
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
    """Clips updates to a fixed norm and adds independent Gaussian noise in every round.

    >>> GaussianConfig(clip_norm=0.5, noise_multiplier=0.8).is_discrete
    False

    Attributes:
      distribution: "continuous" adds float64 noise. With "discrete", clients round their clipped
        updates towards zero to multiples of noise_multiplier x clip_norm / 2^20. The server then
        sums integers and adds noise from a discrete Gaussian on the same grid. "discrete" requires
        the rule "mean" and a noise multiplier > 0.
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
    """Adds independent Gaussian noise in every round; the clip norm follows a noisy quantile.

    Source: Andrew et al. 2021, https://arxiv.org/abs/1905.03871.

    >>> GaussianAdaptiveConfig(noise_multiplier=0.8).target_unclipped_quantile
    0.5

    Attributes:
      target_unclipped_quantile: Share of clients whose update should stay unclipped. The bound
        follows this quantile of the norms; the default is the median.
      clip_learning_rate: Speed at which the bound follows the quantile. A round changes the bound
        by at most a factor of exp(clip_learning_rate).
      clipped_count_noise: Standard deviation of the noise on the number of unclipped clients,
        divided by `train.clients_per_round`. Must be > 0 if the noise multiplier is.
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
    """DP-FTRL with noise from a binary tree over the rounds. Makes no assumption about sampling.

    >>> TreeConfig(noise_multiplier=7.0).type
    'tree'
    """

    type: Literal["tree"] = "tree"


@dataclasses.dataclass(frozen=True, kw_only=True)
class BltConfig(MechanismConfig):
    """DP-FTRL with buffered linear Toeplitz (BLT) noise, optimised for the rounds of the run.

    >>> BltConfig(noise_multiplier=7.0, buffers=3).type
    'blt'

    Attributes:
      buffers: Number of noise buffers. Each needs as much memory as the model.
    """

    type: Literal["blt"] = "blt"
    buffers: Annotated[int, checks.between(1, 4)] = 2


Privacy: TypeAlias = NoPrivacy | GaussianConfig | GaussianAdaptiveConfig | TreeConfig | BltConfig
