"""The `[aggregation]` tables: how one round of client deltas becomes one server delta.

A config is read and refused in milliseconds, without TensorFlow. What each option does is written
in the module that takes it, such as `federated/algorithms/fedatt/aggregator.py`.
"""

import dataclasses
from typing import Annotated, Literal, TypeAlias

from tff_keyboard.config.reading.checks import OpenShare, Positive, Range, between
from tff_keyboard.config.reading.tables import Table
from tff_keyboard.config.sections.privacy_config import (
    Gaussian,
    MechanismConfig,
    NoPrivacy,
    Privacy,
)
from tff_keyboard.config.sections.rule_config import Mean, PrivateFedAtt, Rule


@dataclasses.dataclass(frozen=True, kw_only=True)
class AutoProtection(Table, path="aggregation.protection"):
    """Zeroing and adaptive clipping before mean, FedAtt and FedMed without privacy; else none."""

    clipping: Literal["auto"] = "auto"


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoClipping(Table, path="aggregation.protection"):
    """Whole deltas are not clipped.

    Attributes:
      zeroing: Whether deltas with an extreme coordinate become zeros.
    """

    clipping: Literal["off"] = "off"
    zeroing: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class FixedClipping(Table, path="aggregation.protection"):
    """Whole deltas are clipped to a fixed L2 norm.

    Attributes:
      clip_norm: Bound on a delta's L2 norm, in weight units, > 0.
      zeroing: Whether deltas with an extreme coordinate become zeros.
    """

    clipping: Literal["fixed"] = "fixed"
    clip_norm: Positive = 1.0
    zeroing: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdaptiveClipping(Table, path="aggregation.protection"):
    """Whole deltas are clipped to a norm that follows a quantile, without noise.

    Attributes:
      clip_norm: The first bound, in weight units, > 0. About the 80 % quantile of norms is usual.
      quantile: The share of clients left unclipped, in (0, 1).
      learning_rate: Speed of the bound, > 0: a round changes it by exp(rate) at most. There is no
        noise to smooth, so it is fast: a first bound ten times too large, which an attacker could
        fill, is gone in a dozen rounds.
      zeroing: Whether deltas with an extreme coordinate become zeros.
    """

    clipping: Literal["adaptive"] = "adaptive"
    clip_norm: Positive = 1.0
    quantile: OpenShare = 0.8
    learning_rate: Positive = 1.0
    zeroing: bool = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoCompression(Table, path="aggregation.compression"):
    """Uploads are sent as they are; their bytes are counted."""

    codec: Literal["none"] = "none"


@dataclasses.dataclass(frozen=True, kw_only=True)
class UniformQuantization(Table, path="aggregation.compression"):
    """Uploads are quantised on the client, under any rule.

    Attributes:
      bits: 2..4: 2^bits steps span eight root mean squares of a delta.
      rotated: Whether a random rotation comes first: alike numbers, more bytes.
    """

    codec: Literal["uniform_quantization"] = "uniform_quantization"
    bits: Annotated[int, between(2, 4)] = 4
    rotated: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoClientNoise(Table, path="aggregation.client_noise"):
    """Deltas are sent as they are."""

    distribution: Literal["none"] = "none"


@dataclasses.dataclass(frozen=True, kw_only=True)
class NormalClientNoise(Table, path="aggregation.client_noise"):
    """FedAtt's eq. 6: each client adds beta N(0, sigma^2). Not a differential privacy guarantee.

    Attributes:
      scale: beta times sigma, the standard deviation in weight units, > 0.
    """

    distribution: Literal["normal"] = "normal"
    scale: Positive = 1e-3


@dataclasses.dataclass(frozen=True, kw_only=True)
class AllRows(Table, path="aggregation.row_correction"):
    """Every row of a word table is averaged over the whole cohort."""

    kind: Literal["none"] = "none"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TouchedRows(Table, path="aggregation.row_correction"):
    """Rows of word tables count the clients that typed their word (FedSubAvg).

    Attributes:
      largest_factor: What the row of a rare word is multiplied by at most, > 1.
    """

    kind: Literal["touched"] = "touched"
    largest_factor: Annotated[float, Range("in (1, 1e6)", lambda x: 1 < x < 1e6)] = 10.0


RowCorrection: TypeAlias = AllRows | TouchedRows
Protection: TypeAlias = AutoProtection | NoClipping | FixedClipping | AdaptiveClipping
Compression: TypeAlias = NoCompression | UniformQuantization
ClientNoise: TypeAlias = NoClientNoise | NormalClientNoise


@dataclasses.dataclass(frozen=True, kw_only=True)
class AggregationConfig(Table, path="aggregation"):
    """A rule, and what stands before it.

    Attributes:
      client_weighting: What one client counts for in a weighted mean: "tokens" (words typed),
        "examples" (messages) or "uniform". FedAtt and medians only use whether it is > 0.
      rule: How deltas are combined, by `name`.
      privacy: The mechanism of differential privacy, by `mechanism`.
      protection: What extreme deltas meet before the rule, by `clipping`.
      compression: How uploads are encoded, by `codec`.
      row_correction: How rows of rare words are averaged, by `kind`.
      client_noise: What clients add before they send, by `distribution`.
    """

    client_weighting: Literal["tokens", "examples", "uniform"] = "tokens"
    rule: Rule = dataclasses.field(default_factory=Mean)
    privacy: Privacy = dataclasses.field(default_factory=NoPrivacy)
    protection: Protection = dataclasses.field(default_factory=AutoProtection)
    compression: Compression = dataclasses.field(default_factory=NoCompression)
    row_correction: RowCorrection = dataclasses.field(default_factory=AllRows)
    client_noise: ClientNoise = dataclasses.field(default_factory=NoClientNoise)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.rule, PrivateFedAtt) and not isinstance(self.privacy, Gaussian):
            raise ValueError(
                "`aggregation.rule.name` = 'private_fedatt' needs `aggregation.privacy.mechanism` "
                f"= 'gaussian', got {self.privacy.mechanism!r}: its record has fixed clip norms "
                "and its ratio needs each round's own sum, not a running one."
            )
        discrete = isinstance(self.privacy, Gaussian) and self.privacy.is_discrete
        if discrete and not isinstance(self.rule, Mean):
            raise ValueError(
                "`aggregation.privacy.distribution` = 'discrete' needs `aggregation.rule.name` = "
                f"'mean', got {self.rule.name!r}: only sums of deltas are on a grid."
            )
        if self.is_private:
            self._check_private()
            self._check_projection()

    @property
    def is_private(self) -> bool:
        """Whether a mechanism of differential privacy is at work."""
        return isinstance(self.privacy, MechanismConfig)

    @property
    def resolved_protection(self) -> NoClipping | FixedClipping | AdaptiveClipping:
        """`protection` with "auto" decided."""
        if not isinstance(self.protection, AutoProtection):
            return self.protection
        return AdaptiveClipping() if self.rule.averages and not self.is_private else NoClipping()

    def _check_projection(self) -> None:
        assert isinstance(self.privacy, MechanismConfig)
        size = self.privacy.noise_cohort_size
        if size and not isinstance(self.rule, Mean):
            raise ValueError(
                f"`aggregation.privacy.noise_cohort_size` = {size} needs `aggregation.rule.name` = "
                f"'mean', got {self.rule.name!r}: only a mean's noise falls with the cohort."
            )
        if size and self.privacy.mechanism.endswith("_adaptive"):
            raise ValueError(
                f"`aggregation.privacy.noise_cohort_size` = {size} needs a fixed clip norm, got "
                f"{self.privacy.mechanism!r}: the count of unclipped clients is that of the small "
                "cohort."
            )

    def _check_private(self) -> None:
        mechanism = f"`aggregation.privacy.mechanism` = {self.privacy.mechanism!r}"
        if self.rule.privacy_problem:
            raise ValueError(
                f"{mechanism} cannot be claimed for `aggregation.rule.name` = {self.rule.name!r}: "
                f"{self.rule.privacy_problem}"
            )
        if self.client_weighting != "uniform":
            raise ValueError(
                f"{mechanism} needs `aggregation.client_weighting` = 'uniform', "
                f"got {self.client_weighting!r}: the privacy accounting assumes equal weights. "
                "Change the weighting, or set the mechanism to 'none'."
            )
        if isinstance(self.row_correction, TouchedRows):
            raise ValueError(
                f"`aggregation.row_correction.kind` = 'touched' with {mechanism}: who typed which "
                "word would be released beside the deltas. One person moves as many counts as it "
                "has words, so noise of the square root of that number would have to go on each, "
                "and the noise in rare rows would grow by `largest_factor`. Set it to 'none'."
            )
        protection = self.resolved_protection
        if protection.zeroing:
            raise ValueError(
                f"`aggregation.protection.zeroing` = true with {mechanism}: its threshold is a "
                "quantile estimated without noise, which the guarantee does not cover. Set it to "
                "false."
            )
        if not isinstance(protection, NoClipping):
            raise ValueError(
                f"`aggregation.protection.clipping` = {protection.clipping!r} with {mechanism}: "
                "the mechanism clips itself, and a second, noiseless bound is not covered by the "
                "guarantee. Set it to 'off'; for a bound that adapts choose a mechanism "
                "'*_adaptive'."
            )
