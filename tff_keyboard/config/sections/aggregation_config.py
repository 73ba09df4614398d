"""The `[aggregation]` tables: how the client updates of a round become one server update.

A config is read and checked in milliseconds, without TensorFlow. The module that uses an option
explains it, such as `aggregators/fedatt/aggregator.py`.
"""

import dataclasses
from typing import Annotated, Literal, TypeAlias

from tff_keyboard.config.reading.tables import Table
from tff_keyboard.config.sections.privacy_config import (
    GaussianConfig,
    MechanismConfig,
    NoPrivacy,
    Privacy,
)
from tff_keyboard.config.sections.rule_config import MeanConfig, PrivateFedAttConfig, Rule
from tff_keyboard.storage.checks import OpenShare, Positive, Range, between


@dataclasses.dataclass(frozen=True, kw_only=True)
class AutoProtection(Table, path="aggregation.protection"):
    """Zeroing and adaptive clipping for mean, FedAtt and FedMed without privacy; otherwise none."""

    type: Literal["auto"] = "auto"


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoClipping(Table, path="aggregation.protection"):
    """No clipping of whole updates.

    Attributes:
      zeroing: Whether updates with an extreme coordinate are replaced by zeros.
    """

    type: Literal["off"] = "off"
    zeroing: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class FixedClipping(Table, path="aggregation.protection"):
    """Clipping of whole updates to a fixed L2 norm.

    Attributes:
      clip_norm: Bound on the L2 norm of an update, in weight units, > 0.
      zeroing: Whether updates with an extreme coordinate are replaced by zeros.
    """

    type: Literal["fixed"] = "fixed"
    clip_norm: Positive = 1.0
    zeroing: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdaptiveClipping(Table, path="aggregation.protection"):
    """Clipping of whole updates to a norm that follows a quantile, without noise.

    Attributes:
      clip_norm: The first bound, in weight units, > 0. The 80 % quantile of the norms is usual.
      quantile: Share of clients that are not clipped, in (0, 1).
      learning_rate: Speed of the bound, > 0: a round changes it by at most exp(rate). The default
        is fast, because there is no noise to smooth: a first bound ten times too large, which an
        attacker could exploit, is corrected in a dozen rounds.
      zeroing: Whether updates with an extreme coordinate are replaced by zeros.
    """

    type: Literal["adaptive"] = "adaptive"
    clip_norm: Positive = 1.0
    quantile: OpenShare = 0.8
    learning_rate: Positive = 1.0
    zeroing: bool = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoCompression(Table, path="aggregation.compression"):
    """Uncompressed uploads. Their bytes are counted."""

    type: Literal["none"] = "none"


@dataclasses.dataclass(frozen=True, kw_only=True)
class UniformQuantization(Table, path="aggregation.compression"):
    """Uploads that are quantised on the client, for any aggregator.

    Attributes:
      bits: 2..4: 2^bits steps span eight root mean squares of an update.
    """

    type: Literal["uniform_quantization"] = "uniform_quantization"
    bits: Annotated[int, between(2, 4)] = 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoClientNoise(Table, path="aggregation.client_noise"):
    """No noise on client updates."""

    type: Literal["none"] = "none"


@dataclasses.dataclass(frozen=True, kw_only=True)
class NormalClientNoise(Table, path="aggregation.client_noise"):
    """FedAtt's eq. 6: each client adds beta N(0, sigma^2). Not a differential privacy guarantee.

    Attributes:
      scale: beta times sigma, the standard deviation in weight units, > 0.
    """

    type: Literal["normal"] = "normal"
    scale: Positive = 1e-3


@dataclasses.dataclass(frozen=True, kw_only=True)
class AllRows(Table, path="aggregation.row_correction"):
    """Every row of a word table is averaged over the whole cohort."""

    type: Literal["none"] = "none"


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedSubAvgConfig(Table, path="aggregation.row_correction"):
    """Every row of a word table is averaged over the clients that typed its word (FedSubAvg).

    Attributes:
      largest_factor: Upper bound on the factor for the row of a rare word, > 1.
    """

    type: Literal["fedsubavg"] = "fedsubavg"
    largest_factor: Annotated[float, Range("in (1, 1e6)", lambda x: 1 < x < 1e6)] = 10.0


RowCorrection: TypeAlias = AllRows | FedSubAvgConfig
Protection: TypeAlias = AutoProtection | NoClipping | FixedClipping | AdaptiveClipping
Compression: TypeAlias = NoCompression | UniformQuantization
ClientNoise: TypeAlias = NoClientNoise | NormalClientNoise


@dataclasses.dataclass(frozen=True, kw_only=True)
class AggregationConfig(Table, path="aggregation"):
    """An aggregator, and the steps before it.

    Attributes:
      client_weighting: Weight of a client in a weighted mean: "tokens" (words typed), "examples"
        (messages) or "uniform". FedAtt and medians only use whether it is > 0.
      rule: The aggregator, chosen by `type`.
      privacy: The mechanism of differential privacy, chosen by `type`.
      protection: Treatment of extreme updates before the aggregator, chosen by `type`.
      compression: Encoding of uploads, chosen by `type`.
      row_correction: Averaging of the rows of rare words, chosen by `type`.
      client_noise: Noise that clients add before they send, chosen by `type`.
    """

    client_weighting: Literal["tokens", "examples", "uniform"] = "tokens"
    rule: Rule = dataclasses.field(default_factory=MeanConfig)
    privacy: Privacy = dataclasses.field(default_factory=NoPrivacy)
    protection: Protection = dataclasses.field(default_factory=AutoProtection)
    compression: Compression = dataclasses.field(default_factory=NoCompression)
    row_correction: RowCorrection = dataclasses.field(default_factory=AllRows)
    client_noise: ClientNoise = dataclasses.field(default_factory=NoClientNoise)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.rule, PrivateFedAttConfig) and not isinstance(
            self.privacy, GaussianConfig
        ):
            raise ValueError(
                "`aggregation.rule.type` = 'private_fedatt' needs `aggregation.privacy.type` "
                f"= 'gaussian', got {self.privacy.type!r}: it has fixed clip norms, and its "
                "ratio needs the sum of each round, not a running sum."
            )
        discrete = isinstance(self.privacy, GaussianConfig) and self.privacy.is_discrete
        if discrete and not isinstance(self.rule, MeanConfig):
            raise ValueError(
                "`aggregation.privacy.distribution` = 'discrete' needs `aggregation.rule.type` = "
                f"'mean', got {self.rule.type!r}: only sums of updates are on a grid."
            )
        if self.is_private:
            self._check_private()
            self._check_projection()

    @property
    def is_private(self) -> bool:
        """Whether a mechanism of differential privacy is used."""
        return isinstance(self.privacy, MechanismConfig)

    @property
    def resolved_protection(self) -> NoClipping | FixedClipping | AdaptiveClipping:
        """The value of `protection`, with "auto" replaced by its meaning."""
        if not isinstance(self.protection, AutoProtection):
            return self.protection
        return AdaptiveClipping() if self.rule.averages and not self.is_private else NoClipping()

    def _check_projection(self) -> None:
        assert isinstance(self.privacy, MechanismConfig)
        size = self.privacy.noise_cohort_size
        if size and not isinstance(self.rule, MeanConfig):
            raise ValueError(
                f"`aggregation.privacy.noise_cohort_size` = {size} needs `aggregation.rule.type` = "
                f"'mean', got {self.rule.type!r}: only the noise of a mean decreases with the "
                "cohort size."
            )
        if size and self.privacy.type.endswith("_adaptive"):
            raise ValueError(
                f"`aggregation.privacy.noise_cohort_size` = {size} needs a fixed clip norm, got "
                f"{self.privacy.type!r}: it would use the count of unclipped clients of the "
                "small cohort."
            )

    def _check_private(self) -> None:
        mechanism = f"`aggregation.privacy.type` = {self.privacy.type!r}"
        if self.rule.privacy_problem:
            raise ValueError(
                f"{mechanism} cannot be used with `aggregation.rule.type` = {self.rule.type!r}: "
                f"{self.rule.privacy_problem}"
            )
        if self.client_weighting != "uniform":
            raise ValueError(
                f"{mechanism} needs `aggregation.client_weighting` = 'uniform', "
                f"got {self.client_weighting!r}: the privacy accounting assumes equal weights. "
                "Change the weighting, or set the mechanism to 'none'."
            )
        if isinstance(self.row_correction, FedSubAvgConfig):
            raise ValueError(
                f"`aggregation.row_correction.type` = 'fedsubavg' with {mechanism}: it would "
                "release which client typed which word. A client changes one count for each of its "
                "words, so each count would need noise that grows with the square root of that "
                "number, and the noise in rare rows would grow by `largest_factor`. Set "
                "`aggregation.row_correction.type` = 'none'."
            )
        protection = self.resolved_protection
        if protection.zeroing:
            raise ValueError(
                f"`aggregation.protection.zeroing` = true with {mechanism}: its threshold is a "
                "quantile estimated without noise, which the guarantee does not cover. Set "
                "zeroing to false."
            )
        if not isinstance(protection, NoClipping):
            raise ValueError(
                f"`aggregation.protection.type` = {protection.type!r} with {mechanism}: "
                "the mechanism clips the updates, and the guarantee does not cover a second bound "
                "without noise. Set clipping to 'off'. For an adaptive bound, choose a mechanism "
                "'*_adaptive'."
            )
