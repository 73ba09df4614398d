"""The `[aggregation]` table of a run: how one round of client deltas becomes one server delta.

No TensorFlow here: a config is read and refused in milliseconds. What each option does is
written in the module it names (`algorithms/fedatt/aggregator.py`, `fedmed.py`, ...).
"""

import dataclasses
import re

from tff_keyboard.config.checks import (
    require,
    require_at_least,
    require_one_of,
    require_positive,
)

NAMES = ("mean", "fedatt", "fedmed", "private_fedatt", "median", "trimmed_mean")
CLIENT_WEIGHTINGS = ("tokens", "examples", "uniform")
NORMS = ("1", "2", "inf", "spectral")
DIVERGENCE_NORMALISATIONS = ("absolute", "softmax")
LOCAL_LOSSES = ("during_training", "after_training")
DP_MECHANISMS = (
    *("none", "gaussian", "gaussian_adaptive"),
    *("tree", "tree_adaptive", "blt", "banded"),
)
ZEROING_CHOICES = ("auto", "on", "off")
CLIPPING_CHOICES = ("auto", "adaptive", "fixed", "off")
COMPRESSIONS = ("none", "uniform_quantization", "tff_quantization")
SAMPLING_ASSUMPTIONS = ("fixed_size", "poisson")


@dataclasses.dataclass(frozen=True, kw_only=True)
class AggregationConfig:
    """Every option of the aggregators, their protection, privacy and compression.

    Attributes:
      name: The rule, a key of `aggregation.registry.AGGREGATORS`.
      client_weighting: What one client counts for in a weighted mean: "tokens" (words typed),
        "examples" (messages) or "uniform". FedAtt and medians only use whether it is > 0.
      layer_groups: What FedAtt and FedMed call a layer. Empty: each weight tensor is one.
        Otherwise group name -> variable names (or positions such as "0"); a partition.
      norm: FedAtt's distance of a layer: "1", "2", "inf" or "spectral".
      temperature: FedAtt's attention is softmax(norm / temperature); > 0. Large values tend
        to the unweighted mean.
      client_noise_scale: beta of FedAtt eq. 6, >= 0; 0 sends deltas as they are. Not a
        differential privacy guarantee.
      client_noise_stddev: sigma of FedAtt eq. 6, in weight units, > 0.
      divergence_normalisation: How FedMed turns signed weights into a distribution before
        the Jensen-Shannon divergence: "absolute" or "softmax".
      local_loss: The loss FedMed compares clients and rounds by: "during_training", the mean over
        the batches a client trained on; "after_training", of the trained model on the same
        messages, a third more work for the client.
      mediation_threshold: FedMed's epsilon, in nats of mean local loss, >= 0: the adaptive
        rule is used while the loss moves at least that much between rounds; 0 is always.
      top_fraction: FedMed's beta in (0, 1]: the share of clients, lowest loss first, that
        contribute.
      adaptive_step: FedMed's eta, > 0; scales the adaptive rule only.
      layer_clip_norm: Private FedAtt: L2 bound on each layer of a delta, weight units, > 0.
      attention_bound: Private FedAtt: B >= 0; attention weights lie in [1, e^B].
      denominator_scale: Private FedAtt: lambda > 0, how much of the sensitivity the noisy
        denominators take.
      denominator_floor: Private FedAtt: the least value a noisy denominator may take, in
        clients of full attention, > 0.
      dp: The mechanism: "none", "gaussian", "gaussian_adaptive", or DP-FTRL by "tree",
        "tree_adaptive", "blt" (buffered linear Toeplitz noise) or "banded" (matrix factorisation).
      clip_norm: L2 bound on one client's whole delta, weight units, > 0. The bound of "dp"
        and of "fixed" clipping; where the bound is adaptive, its first value.
      noise_multiplier: Standard deviation of one draw of noise / clip_norm, no unit, >= 0.
      blt_buffers: "blt": buffers of noise, 1..4.
      noise_bands: "banded": diagonals of the matrix, >= 1; one buffer each but the first.
      noise_secret: Where the secret part of the noise key lies, outside the run directory:
        "env:NAME" or "file:PATH"; "" is none.
      fixed_nonce: 32 hexadecimal digits instead of a nonce drawn for the run: reproducible noise,
        for experiments only; the statement then says "simulation".
      target_unclipped_quantile: "*_adaptive" privacy: the share of clients left unclipped, in
        (0, 1).
      clip_learning_rate: "*_adaptive" privacy: at most exp(rate) of change a round, > 0.
      clipped_count_noise: Adaptive bound under noise: standard deviation of the noise on the
        count of unclipped clients / clients_per_round; > 0.
      tree_restart_rounds: "tree": a new tree after that many rounds; 0 is never.
        "tree_adaptive": also when the clip norm may change, so > 0.
      delta: The delta of the (epsilon, delta) statement, in (0, 1).
      sampling: What the accounting may assume of cohorts: "fixed_size" (our sampler) or
        "poisson". Tree mechanisms assume nothing of sampling.
      max_participations: "tree": a client joins at most that many rounds; 0 means as many as
        the minimum separation allows.
      zeroing: Zero deltas with an extreme coordinate: "on", "off", or "auto" (on for mean,
        fedatt and fedmed without privacy).
      clipping: Clip whole deltas before aggregation: "adaptive", "fixed", "off" or "auto"
        (adaptive where zeroing is on by default).
      clipping_quantile: "adaptive" clipping: the share of clients left unclipped, in (0, 1).
      clipping_learning_rate: "adaptive" clipping: at most exp(rate) of change a round, > 0.
        There is no noise to smooth, so it is fast: a first bound ten times too large, which an
        attacker could fill, is gone in a dozen rounds.
      trim_fraction: Trimmed mean: share cut on each side, in [0, 0.5).
      compression: Encoding of uploads: "none"; "uniform_quantization", under any rule;
        "tff_quantization", TFF's own factory inside the sum of "mean".
      compression_bits: Bits a coordinate, 1..16.
      compression_threshold: Tensors of at most that many elements are sent whole.
    """

    name: str = "mean"
    client_weighting: str = "tokens"
    layer_groups: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    norm: str = "2"
    temperature: float = 1.0
    client_noise_scale: float = 0.0
    client_noise_stddev: float = 1.0
    divergence_normalisation: str = "absolute"
    local_loss: str = "during_training"
    mediation_threshold: float = 0.01
    top_fraction: float = 1.0
    adaptive_step: float = 1.0
    layer_clip_norm: float = 0.5
    attention_bound: float = 1.0
    denominator_scale: float = 1.0
    denominator_floor: float = 1.0
    dp: str = "none"
    clip_norm: float = 1.0
    noise_multiplier: float = 0.0
    blt_buffers: int = 2
    noise_bands: int = 8
    noise_secret: str = ""
    fixed_nonce: str = ""
    target_unclipped_quantile: float = 0.5
    clip_learning_rate: float = 0.2
    clipped_count_noise: float = 0.05
    tree_restart_rounds: int = 0
    delta: float = 1e-6
    sampling: str = "fixed_size"
    max_participations: int = 0
    zeroing: str = "auto"
    clipping: str = "auto"
    clipping_quantile: float = 0.8
    clipping_learning_rate: float = 1.0
    trim_fraction: float = 0.1
    compression: str = "none"
    compression_bits: int = 8
    compression_threshold: int = 1000

    def __post_init__(self) -> None:
        self._check_choices()
        self._check_ranges()
        self._check_layer_groups()
        self._check_privacy()
        self._check_compression()

    @property
    def uses_adaptive_clip(self) -> bool:
        """Whether the bound of the privacy mechanism follows a quantile."""
        return self.dp.endswith("_adaptive")

    @property
    def uses_tree(self) -> bool:
        """Whether noise is added by tree aggregation (DP-FTRL)."""
        return self.dp.startswith("tree")

    @property
    def resolved_zeroing(self) -> bool:
        """`zeroing` with "auto" decided."""
        if self.zeroing == "auto":
            return self.name in ("mean", "fedatt", "fedmed") and self.dp == "none"
        return self.zeroing == "on"

    @property
    def resolved_clipping(self) -> str:
        """`clipping` with "auto" decided: "adaptive", "fixed" or "off"."""
        if self.clipping == "auto":
            protected = self.name in ("mean", "fedatt", "fedmed") and self.dp == "none"
            return "adaptive" if protected else "off"
        return self.clipping

    def _check_choices(self) -> None:
        for field, choices in (
            ("name", NAMES),
            ("client_weighting", CLIENT_WEIGHTINGS),
            ("norm", NORMS),
            ("divergence_normalisation", DIVERGENCE_NORMALISATIONS),
            ("local_loss", LOCAL_LOSSES),
            ("dp", DP_MECHANISMS),
            ("zeroing", ZEROING_CHOICES),
            ("clipping", CLIPPING_CHOICES),
            ("compression", COMPRESSIONS),
            ("sampling", SAMPLING_ASSUMPTIONS),
        ):
            require_one_of(f"aggregation.{field}", getattr(self, field), choices)

    def _check_ranges(self) -> None:
        for field in (
            "temperature",
            "client_noise_stddev",
            "adaptive_step",
            "layer_clip_norm",
            "denominator_scale",
            "denominator_floor",
            "clip_norm",
            "clip_learning_rate",
            "clipping_learning_rate",
        ):
            require_positive(f"aggregation.{field}", getattr(self, field))
        for field in (
            "client_noise_scale",
            "mediation_threshold",
            "attention_bound",
            "noise_multiplier",
            "clipped_count_noise",
            "tree_restart_rounds",
            "max_participations",
            "compression_threshold",
        ):
            require_at_least(f"aggregation.{field}", getattr(self, field), 0)
        for field in ("target_unclipped_quantile", "clipping_quantile", "delta"):
            value = getattr(self, field)
            require(0 < value < 1, f"aggregation.{field}", "must be in (0, 1)", value)
        for field, holds, rule in (
            ("top_fraction", 0 < self.top_fraction <= 1, "must be in (0, 1]"),
            ("trim_fraction", 0 <= self.trim_fraction < 0.5, "must be in [0, 0.5)"),
            ("compression_bits", 1 <= self.compression_bits <= 16, "must be in 1..16"),
            ("blt_buffers", 1 <= self.blt_buffers <= 4, "must be in 1..4"),
            ("noise_bands", self.noise_bands >= 1, "must be >= 1"),
            (
                "fixed_nonce",
                not self.fixed_nonce or re.fullmatch("[0-9a-f]{32}", self.fixed_nonce),
                "must be 32 hexadecimal digits",
            ),
            (
                "noise_secret",
                not self.noise_secret or re.fullmatch("(env|file):.+", self.noise_secret),
                "must be 'env:NAME' or 'file:PATH'",
            ),
        ):
            require(bool(holds), f"aggregation.{field}", rule, getattr(self, field))

    def _check_layer_groups(self) -> None:
        seen: dict[str, str] = {}
        for group, members in self.layer_groups.items():
            if not members:
                raise ValueError(
                    f"`aggregation.layer_groups.{group}` is empty: name its variables or remove it."
                )
            for member in members:
                if member in seen:
                    raise ValueError(
                        f"`aggregation.layer_groups`: variable {member!r} is in {seen[member]!r} "
                        f"and {group!r}; each variable belongs to one group."
                    )
                seen[member] = group

    def _check_privacy(self) -> None:
        if self.dp == "none":
            if self.noise_multiplier > 0:
                raise ValueError(
                    f"`aggregation.noise_multiplier` = {self.noise_multiplier} needs a mechanism: "
                    "set `aggregation.dp` (such as 'gaussian'), or the noise to 0."
                )
            return
        if self.name in ("fedatt", "fedmed"):
            raise ValueError(
                f"`aggregation.dp` = {self.dp!r} cannot be claimed for `aggregation.name` = "
                f"{self.name!r}: its weights depend on all clients at once, so one client's "
                "influence is not bounded by clipping. Use 'private_fedatt' or 'mean'."
            )
        if self.name in ("median", "trimmed_mean"):
            raise ValueError(
                f"`aggregation.dp` = {self.dp!r} cannot be claimed for `aggregation.name` = "
                f"{self.name!r}: order statistics have no clipped sensitivity. Use 'mean'."
            )
        if self.name == "private_fedatt" and self.dp != "gaussian":
            raise ValueError(
                f"`aggregation.name` = 'private_fedatt' needs `aggregation.dp` = 'gaussian', got "
                f"{self.dp!r}: its record has fixed clip norms and its ratio needs each round's "
                "own sum, not a running one."
            )
        if self.client_weighting != "uniform":
            raise ValueError(
                f"`aggregation.dp` = {self.dp!r} needs `aggregation.client_weighting` = 'uniform', "
                f"got {self.client_weighting!r}: the privacy accounting assumes equal weights. "
                "Change the weighting, or set `aggregation.dp` to 'none'."
            )
        if self.zeroing == "on":
            raise ValueError(
                "`aggregation.zeroing` = 'on' under `aggregation.dp`: its threshold is a quantile "
                "estimated without noise, which the guarantee does not cover. Set it to 'off'."
            )
        if self.clipping in ("adaptive", "fixed"):
            raise ValueError(
                f"`aggregation.clipping` = {self.clipping!r} under `aggregation.dp`: the mechanism "
                "clips itself, and a second, noiseless bound is not covered by the guarantee. "
                "Set it to 'off'; for a bound that adapts choose `aggregation.dp` = '*_adaptive'."
            )
        if self.uses_adaptive_clip and self.noise_multiplier > 0 and self.clipped_count_noise == 0:
            raise ValueError(
                "`aggregation.clipped_count_noise` = 0 with an adaptive clip norm: the count of "
                "unclipped clients would be released without noise. Set it above 0 (0.05 is usual)."
            )
        if self.dp == "tree_adaptive" and self.tree_restart_rounds == 0:
            raise ValueError(
                "`aggregation.tree_restart_rounds` must be > 0 with `aggregation.dp` = "
                "'tree_adaptive': the clip norm may only change when the tree starts again."
            )

    def _check_compression(self) -> None:
        if self.compression != "tff_quantization":
            return
        if self.name != "mean" or self.dp != "none":
            raise ValueError(
                "`aggregation.compression` = 'tff_quantization' encodes inside the sum of "
                f"`aggregation.name` = 'mean' without privacy; got {self.name!r} with dp "
                f"{self.dp!r}. Use 'uniform_quantization', which works under any rule."
            )
