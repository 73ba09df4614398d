"""The `[aggregation]` tables: how the client updates of a round become one server update.

A config is read and checked in milliseconds, without TensorFlow. The module that uses an option
explains it, such as `aggregators/fedatt/aggregator.py`.
"""

import dataclasses
from typing import Annotated, Literal, TypeAlias

from tff_keyboard.parts.aggregator import AGGREGATORS, Aggregator
from tff_keyboard.parts.privacy_mechanism import MECHANISMS, MechanismConfig, PrivacyOptions
from tff_keyboard.parts.tables import Table
from tff_keyboard.storage.checks import OpenShare, Positive, Range, between


@dataclasses.dataclass(frozen=True, kw_only=True)
class AutoProtection(Table, path="aggregation.protection"):
    """The default protection, which depends on the aggregator.

    With "mean", "fedatt" and "fedmed" and without privacy it is "adaptive"; otherwise it is "off".
    """

    type: Literal["auto"] = "auto"


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoClipping(Table, path="aggregation.protection"):
    """Does not clip updates.

    Attributes:
      zeroing: Whether an update is replaced by zeros if one of its coordinates is extreme: larger
        than about twice the 98 % quantile of the largest coordinates of recent updates.
    """

    type: Literal["off"] = "off"
    zeroing: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class FixedClipping(Table, path="aggregation.protection"):
    """Clips every update to a fixed L2 norm.

    Attributes:
      clip_norm: Bound on the L2 norm of a client's update, in units of the model's weights. Longer
        updates are scaled down to this norm.
      zeroing: Whether updates with an extreme coordinate are replaced by zeros, as for "off".
    """

    type: Literal["fixed"] = "fixed"
    clip_norm: Positive = 1.0
    zeroing: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdaptiveClipping(Table, path="aggregation.protection"):
    """Clips every update to an L2 norm that follows a quantile of the norms of recent updates.

    The quantile is estimated without noise.

    Attributes:
      clip_norm: Bound on the L2 norm of an update in the first round, in units of the model's
        weights.
      quantile: Share of clients whose update should stay unclipped. The bound follows this quantile
        of the norms. The default 0.8 is usual.
      learning_rate: Speed at which the bound follows the quantile. A round changes the bound by at
        most a factor of exp(learning_rate). The default is fast: it corrects a first bound that is
        ten times too large, which an attacker could exploit, in a dozen rounds.
      zeroing: Whether updates with an extreme coordinate are replaced by zeros, as for "off".
    """

    type: Literal["adaptive"] = "adaptive"
    clip_norm: Positive = 1.0
    quantile: OpenShare = 0.8
    learning_rate: Positive = 1.0
    zeroing: bool = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoCompression(Table, path="aggregation.compression"):
    """Sends uploads without compression. Their bytes are counted."""

    type: Literal["none"] = "none"


@dataclasses.dataclass(frozen=True, kw_only=True)
class UniformQuantization(Table, path="aggregation.compression"):
    """Quantises uploads on the client. Works with every aggregator.

    Attributes:
      bits: Bits per coordinate, 2 to 4. The 2^bits steps cover a range of eight times the root mean
        square of an update. Fewer bits make uploads smaller and less exact.
    """

    type: Literal["uniform_quantization"] = "uniform_quantization"
    bits: Annotated[int, between(2, 4)] = 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoClientNoise(Table, path="aggregation.client_noise"):
    """Adds no noise to the updates of clients."""

    type: Literal["none"] = "none"


@dataclasses.dataclass(frozen=True, kw_only=True)
class NormalClientNoise(Table, path="aggregation.client_noise"):
    """Each client adds Gaussian noise to its update, as in eq. 6 of FedAtt.

    This gives no differential privacy, because updates have no bounded norm.

    Attributes:
      scale: Standard deviation of the noise on each coordinate, in units of the model's weights:
        beta times sigma in the paper.
    """

    type: Literal["normal"] = "normal"
    scale: Positive = 1e-3


@dataclasses.dataclass(frozen=True, kw_only=True)
class AllRows(Table, path="aggregation.row_correction"):
    """Averages every row of a word table over the whole cohort."""

    type: Literal["none"] = "none"


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedSubAvgConfig(Table, path="aggregation.row_correction"):
    """Averages every row of a word table over the clients that typed the word (FedSubAvg).

    Attributes:
      largest_factor: Upper bound on the factor that enlarges the row of a rare word.
    """

    type: Literal["fedsubavg"] = "fedsubavg"
    largest_factor: Annotated[float, Range("in (1, 1e6)", lambda x: 1 < x < 1e6)] = 10.0


def _no_privacy() -> PrivacyOptions:
    return MECHANISMS["none"]()


def _mean() -> Aggregator:
    return AGGREGATORS["mean"]()


RowCorrection: TypeAlias = AllRows | FedSubAvgConfig
Protection: TypeAlias = AutoProtection | NoClipping | FixedClipping | AdaptiveClipping
Compression: TypeAlias = NoCompression | UniformQuantization
ClientNoise: TypeAlias = NoClientNoise | NormalClientNoise


@dataclasses.dataclass(frozen=True, kw_only=True)
class AggregationConfig(Table, path="aggregation"):
    """The aggregator, and the steps that an update passes before it.

    Attributes:
      client_weighting: Weight of a client in a weighted mean: its number of typed words ("tokens"),
        its number of messages ("examples"), or 1 ("uniform"). FedAtt and the medians only leave out
        clients whose weight is 0.
      rule: The aggregator, chosen by `type`.
      privacy: The mechanism of differential privacy, chosen by `type`.
      protection: Treatment of extreme updates before the aggregator, chosen by `type`.
      compression: Encoding of uploads, chosen by `type`.
      row_correction: Averaging of the rows of rare words, chosen by `type`.
      client_noise: Noise that clients add before they send, chosen by `type`.
    """

    client_weighting: Literal["tokens", "examples", "uniform"] = "tokens"
    rule: Aggregator = dataclasses.field(default_factory=_mean)
    privacy: PrivacyOptions = dataclasses.field(default_factory=_no_privacy)
    protection: Protection = dataclasses.field(default_factory=AutoProtection)
    compression: Compression = dataclasses.field(default_factory=NoCompression)
    row_correction: RowCorrection = dataclasses.field(default_factory=AllRows)
    client_noise: ClientNoise = dataclasses.field(default_factory=NoClientNoise)

    def __post_init__(self) -> None:
        super().__post_init__()
        required = self.rule.required_privacy
        if required and self.privacy.type != required:
            raise ValueError(
                f"`aggregation.rule.type` = {self.rule.type!r} needs `aggregation.privacy.type` "
                f"= {required!r}, got {self.privacy.type!r}: {self.rule.required_privacy_reason}"
            )
        discrete = isinstance(self.privacy, MechanismConfig) and self.privacy.is_discrete
        if discrete and not self.rule.is_mean:
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
        if size and not self.rule.is_mean:
            raise ValueError(
                f"`aggregation.privacy.noise_cohort_size` = {size} needs `aggregation.rule.type` = "
                f"'mean', got {self.rule.type!r}: only the noise of a mean decreases with the "
                "cohort size."
            )
        if size and self.privacy.is_adaptive:
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
