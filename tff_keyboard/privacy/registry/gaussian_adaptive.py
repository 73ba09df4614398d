"""The mechanism "gaussian_adaptive": independent noise, and a clip norm that follows a quantile.

Source: Andrew et al. 2021, https://arxiv.org/abs/1905.03871.
"""

import dataclasses
from typing import ClassVar, Literal

from tff_keyboard.parts.privacy_mechanism import MechanismConfig
from tff_keyboard.privacy.registry._independent import IndependentGaussian
from tff_keyboard.storage import checks


@dataclasses.dataclass(frozen=True, kw_only=True)
class GaussianAdaptive(IndependentGaussian):
    """Fresh noise in every round, with an adaptive bound."""

    is_adaptive: ClassVar[bool] = True

    name: Literal["gaussian_adaptive"] = "gaussian_adaptive"

    @property
    def description(self) -> str:
        """See base class."""
        return "Gaussian mechanism, clip norm follows a noisy quantile"


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

    is_adaptive: ClassVar[bool] = True
    is_compared: ClassVar[bool] = False  # it costs the same as "gaussian"

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

    def mechanism(
        self, *, rounds: int, min_separation_rounds: int = 1, momentum: float = 0.0
    ) -> GaussianAdaptive:
        """See base class."""
        return GaussianAdaptive()
