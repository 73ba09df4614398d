"""`[aggregation.privacy]`: the mechanism of differential privacy, chosen by `mechanism`.

A new mechanism is a class here and its name in `Privacy`; what it does to a sum of deltas is in
`privacy/mechanisms/mechanism.py`, what it costs in `privacy/claims/statement.py`.
"""

import dataclasses
import re
from typing import ClassVar, Literal, TypeAlias

from tff_keyboard.config.reading.checks import require, require_at_least, require_positive
from tff_keyboard.config.reading.tables import Table

_PATH = "aggregation.privacy"


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoPrivacy(Table):
    """No mechanism, no claim, no ledger."""

    PATH: ClassVar[str] = _PATH

    mechanism: Literal["none"] = "none"


@dataclasses.dataclass(frozen=True, kw_only=True)
class MechanismConfig(Table):
    """What all mechanisms have.

    Attributes:
      mechanism: Name that chooses the class.
      clip_norm: L2 bound on one client's whole delta (with private FedAtt on each of its layers),
        in weight units, > 0; where the bound adapts, its first value.
      noise_multiplier: Standard deviation of one draw of noise / clip_norm, no unit, >= 0; 0 clips
        and claims nothing.
      delta: The delta of the (epsilon, delta) statement, in (0, 1).
      max_participations: A client joins at most that many rounds; 0 means as many as the minimum
        separation allows. Refused where nothing enforces it.
      noise_secret: Place of the secret part of the noise key, outside the run directory: "env:NAME"
        or "file:PATH"; "" is none.
      fixed_nonce: 32 hexadecimal digits instead of a nonce drawn for the run: reproducible noise,
        for experiments only; the statement then says "simulation".
      noise_cohort_size: 0, or the clients a round of a larger federation whose noise is simulated:
        the mean's noise is noise_multiplier x clip_norm / noise_cohort_size. A PROJECTION, and
        labelled so wherever its epsilon is shown: it is about the larger federation, with as many
        times more people. Rule "mean", fixed clip norm; at least `train.clients_per_round`.
      participation: "record": rounds and people are noted beside the store, and people of other
        runs' last rounds wait for `train.min_separation_rounds`; "off": each run is by itself, as
        experiments on one store need it; "auto": "record" where there is a `noise_secret`.
    """

    PATH: ClassVar[str] = _PATH
    mechanism: str
    clip_norm: float = 1.0
    noise_multiplier: float = 0.0
    delta: float = 1e-6
    max_participations: int = 0
    noise_secret: str = ""
    fixed_nonce: str = ""
    noise_cohort_size: int = 0
    participation: Literal["auto", "record", "off"] = "auto"

    @property
    def records_participation(self) -> bool:
        """`participation` with "auto" decided."""
        if self.participation == "auto":
            return bool(self.noise_secret) and self.noise_multiplier > 0
        return self.participation == "record"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(f"{_PATH}.clip_norm", self.clip_norm)
        require_at_least(f"{_PATH}.noise_multiplier", self.noise_multiplier, 0)
        require(0 < self.delta < 1, f"{_PATH}.delta", "must be in (0, 1)", self.delta)
        require_at_least(f"{_PATH}.max_participations", self.max_participations, 0)
        require(
            not self.noise_secret or bool(re.fullmatch("(env|file):.+", self.noise_secret)),
            f"{_PATH}.noise_secret",
            "must be 'env:NAME' or 'file:PATH'",
            self.noise_secret,
        )
        require_at_least(f"{_PATH}.noise_cohort_size", self.noise_cohort_size, 0)
        require(
            self.participation != "record" or self.noise_multiplier > 0,
            f"{_PATH}.participation",
            "'record' needs a noise multiplier above 0: runs are named by their noise keys",
            self.participation,
        )
        require(
            not self.fixed_nonce or bool(re.fullmatch("[0-9a-f]{32}", self.fixed_nonce)),
            f"{_PATH}.fixed_nonce",
            "must be 32 hexadecimal digits",
            self.fixed_nonce,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Gaussian(MechanismConfig):
    """Fresh Gaussian noise every round, fixed bound.

    Attributes:
      sampling: What the accounting may assume of cohorts: "fixed_size" (our sampler) or "poisson".
      distribution: "continuous": doubles; "discrete": clients round their clipped deltas towards
        zero to a grid of noise_multiplier x clip_norm / 2^20, sums are of integers, noise is a
        discrete Gaussian on the same grid. Needs the rule "mean" and noise.
    """

    mechanism: Literal["gaussian"] = "gaussian"
    sampling: Literal["fixed_size", "poisson"] = "fixed_size"
    distribution: Literal["continuous", "discrete"] = "continuous"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.distribution == "continuous" or self.noise_multiplier > 0,
            f"{_PATH}.distribution",
            "'discrete' needs a noise multiplier above 0: the grid is a fraction of the noise",
            self.distribution,
        )

    @property
    def is_discrete(self) -> bool:
        """Whether sum and noise are integers."""
        return self.distribution == "discrete"


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Adaptive(MechanismConfig):
    """A bound that follows a noisy quantile (Andrew et al. 2021).

    Attributes:
      target_unclipped_quantile: The share of clients left unclipped, in (0, 1).
      clip_learning_rate: Speed of the clip norm, > 0: a round changes it by exp(rate) at most.
      clipped_count_noise: Standard deviation of the noise on the count of unclipped clients /
        clients_per_round; > 0 under noise.
    """

    target_unclipped_quantile: float = 0.5
    clip_learning_rate: float = 0.2
    clipped_count_noise: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        share = self.target_unclipped_quantile
        require(0 < share < 1, f"{_PATH}.target_unclipped_quantile", "must be in (0, 1)", share)
        require_positive(f"{_PATH}.clip_learning_rate", self.clip_learning_rate)
        require_at_least(f"{_PATH}.clipped_count_noise", self.clipped_count_noise, 0)
        require(
            self.clipped_count_noise > 0 or self.noise_multiplier == 0,
            f"{_PATH}.clipped_count_noise",
            "must be > 0 under noise: the count of unclipped clients would be released without "
            "noise",
            self.clipped_count_noise,
            "0.05 is usual.",
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class GaussianAdaptive(_Adaptive):
    """Fresh Gaussian noise every round, adaptive bound.

    Attributes:
      sampling: What the accounting may assume of cohorts; see "gaussian".
    """

    mechanism: Literal["gaussian_adaptive"] = "gaussian_adaptive"
    sampling: Literal["fixed_size", "poisson"] = "fixed_size"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tree(MechanismConfig):
    """DP-FTRL: noise of a binary tree over rounds; assumes nothing of sampling.

    Attributes:
      restart_rounds: A new tree after that many rounds; 0 is never.
    """

    mechanism: Literal["tree"] = "tree"
    restart_rounds: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(f"{_PATH}.restart_rounds", self.restart_rounds, 0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TreeAdaptive(_Adaptive):
    """DP-FTRL with an adaptive bound, which may only change when the tree starts again.

    Attributes:
      restart_rounds: A new tree after that many rounds, >= 1.
    """

    mechanism: Literal["tree_adaptive"] = "tree_adaptive"
    restart_rounds: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.restart_rounds >= 1,
            f"{_PATH}.restart_rounds",
            "must be >= 1: the clip norm may only change when the tree starts again",
            self.restart_rounds,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blt(MechanismConfig):
    """DP-FTRL by buffered linear Toeplitz noise, its coefficients optimised for the schedule.

    Attributes:
      buffers: Buffers of noise, each as large as the model, 1..4.
    """

    mechanism: Literal["blt"] = "blt"
    buffers: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        require(1 <= self.buffers <= 4, f"{_PATH}.buffers", "must be in 1..4", self.buffers)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Banded(MechanismConfig):
    """DP-FTRL by banded matrix factorisation, its coefficients optimised for the schedule.

    Attributes:
      bands: Diagonals of the matrix, >= 1; one buffer each but the first.
    """

    mechanism: Literal["banded"] = "banded"
    bands: int = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(f"{_PATH}.bands", self.bands, 1)


Privacy: TypeAlias = NoPrivacy | Gaussian | GaussianAdaptive | Tree | TreeAdaptive | Blt | Banded
