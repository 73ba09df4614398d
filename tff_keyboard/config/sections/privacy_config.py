"""`[aggregation.privacy]`: the mechanism of differential privacy, chosen by `mechanism`.

A new mechanism is a class here and its name in `Privacy`; what it does to a sum of deltas is in
`privacy/mechanisms/mechanism.py`, what it costs in `privacy/claims/statement.py`.
"""

import dataclasses
import re
from typing import Annotated, Literal, TypeAlias

from tff_keyboard.config.reading import checks
from tff_keyboard.config.reading.tables import Table


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoPrivacy(Table, path="aggregation.privacy"):
    """No mechanism, no claim, no ledger."""

    mechanism: Literal["none"] = "none"


@dataclasses.dataclass(frozen=True, kw_only=True)
class MechanismConfig(Table, path="aggregation.privacy"):
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

    mechanism: str
    clip_norm: checks.Positive = 1.0
    noise_multiplier: checks.NotNegative = 0.0
    delta: checks.OpenShare = 1e-6
    max_participations: checks.FromZero = 0
    noise_secret: str = ""
    fixed_nonce: str = ""
    noise_cohort_size: checks.FromZero = 0
    participation: Literal["auto", "record", "off"] = "auto"

    @property
    def records_participation(self) -> bool:
        """`participation` with "auto" decided."""
        if self.participation == "auto":
            return bool(self.noise_secret) and self.noise_multiplier > 0
        return self.participation == "record"

    def __post_init__(self) -> None:
        super().__post_init__()
        named = not self.noise_secret or bool(re.fullmatch("(env|file):.+", self.noise_secret))
        self.require(named, "noise_secret", "must be 'env:NAME' or 'file:PATH'")
        rule = "'record' needs a noise multiplier above 0: runs are named by their noise keys"
        has_key = self.participation != "record" or self.noise_multiplier > 0
        self.require(has_key, "participation", rule)
        is_nonce = not self.fixed_nonce or bool(re.fullmatch("[0-9a-f]{32}", self.fixed_nonce))
        self.require(is_nonce, "fixed_nonce", "must be 32 hexadecimal digits")


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
        self.require(
            self.distribution == "continuous" or self.noise_multiplier > 0,
            "distribution",
            "'discrete' needs a noise multiplier above 0: the grid is a fraction of the noise",
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

    target_unclipped_quantile: checks.OpenShare = 0.5
    clip_learning_rate: checks.Positive = 0.2
    clipped_count_noise: checks.NotNegative = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(
            self.clipped_count_noise > 0 or self.noise_multiplier == 0,
            "clipped_count_noise",
            "must be > 0 under noise: the count of unclipped clients would be released without "
            "noise",
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
    restart_rounds: checks.FromZero = 0


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
        rule = "must be >= 1: the clip norm may only change when the tree starts again"
        self.require(self.restart_rounds >= 1, "restart_rounds", rule)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blt(MechanismConfig):
    """DP-FTRL by buffered linear Toeplitz noise, its coefficients optimised for the schedule.

    Attributes:
      buffers: Buffers of noise, each as large as the model, 1..4.
    """

    mechanism: Literal["blt"] = "blt"
    buffers: Annotated[int, checks.between(1, 4)] = 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Banded(MechanismConfig):
    """DP-FTRL by banded matrix factorisation, its coefficients optimised for the schedule.

    Attributes:
      bands: Diagonals of the matrix, >= 1; one buffer each but the first.
    """

    mechanism: Literal["banded"] = "banded"
    bands: checks.FromOne = 8


Privacy: TypeAlias = NoPrivacy | Gaussian | GaussianAdaptive | Tree | TreeAdaptive | Blt | Banded
