"""Differentially private means of clipped updates.

The denominator of the mean is the report goal, not the number of reports, because participation is
private. Client weights are ignored. Zeroing by a quantile without noise, which
`tff.learning.dp_aggregator` adds by default, is not offered, because no accounting covers it. The
noise of a round (independent, from a tree, or correlated) is put into the state before the round
(`algorithms/rounds/noised.py`).
"""

from collections.abc import Mapping
from typing import Any, Literal

import dp_accounting
import tensorflow_federated as tff

from tff_keyboard.aggregators.layers import require_float_tensors
from tff_keyboard.aggregators.private import adaptive_clip
from tff_keyboard.aggregators.private.noised_sum import NoisedSumQuery
from tff_keyboard.privacy.mechanisms import mechanism as mechanisms
from tff_keyboard.privacy.mechanisms.discrete_normal import BITS
from tff_keyboard.storage.checks import NOT_NEGATIVE, POSITIVE, require, require_one_of

# The arguments that only one mechanism has, with their default values
_OPTIONS: dict[str, dict[str, Any]] = {
    "gaussian": {"distribution": "continuous"},
    "gaussian_adaptive": {
        "target_unclipped_quantile": 0.5,
        "clip_learning_rate": 0.2,
        "clipped_count_noise": 0.05,
    },
    "tree": {},
    "blt": {"buffers": 2},
}


class PrivateMeanFactory(tff.aggregators.UnweightedAggregationFactory):
    """Noisy mean of clipped updates.

        mean = tk.aggregators.PrivateMean(
            noise_multiplier=1.0, clip_norm=0.3, clients_per_round=100
        )
        process = tff.learning.algorithms.build_unweighted_fed_avg(
            model_fn, tff.learning.optimizers.build_sgdm(0.5), model_aggregator=mean
        )

    With "gaussian" and "gaussian_adaptive" it works by itself in TFF code: TensorFlow draws the
    noise of each round. `with_noise` computes the noise in double precision from a secret key, so
    a run that is resumed with the same key has the same noise. The mechanisms with
    correlated noise require `with_noise`; without it their rounds fail.

    State: TFF's `DPAggregatorState`. Measurements: `dp_query_metrics` with `clip_norm` and
    `noise_stddev`, and `dp`.

    Args:
      clients_per_round: The report goal, >= 1: the fixed denominator of the mean.
      noise_multiplier: Standard deviation of one draw of noise / clip norm, >= 0. With 0, updates
        are clipped and there is no guarantee.
      clip_norm: L2 bound on one client's update, > 0. With "gaussian_adaptive", the bound of the
        first round.
      mechanism: "gaussian" (fresh noise in every round), "gaussian_adaptive" (also, the clip norm
        follows a noisy quantile), "tree" or "blt" (correlated noise).
      distribution: Only with "gaussian": "continuous" (the default), or "discrete": clients round
        their clipped updates to a grid, and sums are of integers.
      target_unclipped_quantile: Only with "gaussian_adaptive": share of clients that are not
        clipped, in (0, 1). Default: 0.5.
      clip_learning_rate: Only with "gaussian_adaptive": speed of the clip norm, > 0. Default: 0.2.
      clipped_count_noise: Only with "gaussian_adaptive": standard deviation of the noise on the
        count of unclipped clients, divided by `clients_per_round`. Must be > 0 if the noise
        multiplier is. Default: 0.05.
      buffers: Only with "blt": number of noise buffers, 1..4. Default: 2.
      noise_cohort_size: 0, or the clients per round of a larger federation whose noise is
        simulated, >= `clients_per_round`.
      draws_noise: Whether TensorFlow draws the noise of a round if `with_noise` does not supply it.
        If False, such a round fails. TensorFlow never draws correlated or discrete noise.
      takes_sums: Whether the inputs are parts of a secure sum (`noised_sum.py`); only with
        `distribution` "discrete".

    Raises:
      ValueError: If an argument is out of range, or adaptive clipping would use up all noise.
      TypeError: If the mechanism has no such argument.
    """

    def __init__(
        self,
        *,
        clients_per_round: int,
        noise_multiplier: float,
        clip_norm: float = 1.0,
        mechanism: Literal["gaussian", "gaussian_adaptive", "tree", "blt"] = "gaussian",
        distribution: Literal["continuous", "discrete"] | None = None,
        target_unclipped_quantile: float | None = None,
        clip_learning_rate: float | None = None,
        clipped_count_noise: float | None = None,
        buffers: int | None = None,
        noise_cohort_size: int = 0,
        draws_noise: bool = True,
        takes_sums: bool = False,
    ):
        require(clients_per_round >= 1, "clients_per_round", "must be >= 1", clients_per_round)
        NOT_NEGATIVE.check("noise_multiplier", noise_multiplier)
        POSITIVE.check("clip_norm", clip_norm)
        require_one_of("mechanism", mechanism, _OPTIONS)
        given = {
            "distribution": distribution,
            "target_unclipped_quantile": target_unclipped_quantile,
            "clip_learning_rate": clip_learning_rate,
            "clipped_count_noise": clipped_count_noise,
            "buffers": buffers,
        }
        given = {name: value for name, value in given.items() if value is not None}
        for name in given:
            if name not in _OPTIONS[mechanism]:
                raise TypeError(f"`{name}` has no effect with `mechanism` = {mechanism!r}.")
        options = _OPTIONS[mechanism] | given
        self._mechanism = mechanism
        self._buffers: int = options.get("buffers", 1)
        self._is_discrete = options.get("distribution") == "discrete"
        if mechanism == "gaussian":
            known = ("continuous", "discrete")
            require_one_of("distribution", options["distribution"], known)
        if self._is_discrete:  # the grid is a fraction of the noise
            POSITIVE.check("noise_multiplier", noise_multiplier)
        elif takes_sums:
            raise ValueError("`takes_sums` needs `distribution` = 'discrete': sums of integers.")
        adaptive = None
        if mechanism == "gaussian_adaptive":
            adaptive = _adaptive_clip(noise_multiplier, clients_per_round, **options)
        multiplier = float(noise_multiplier)
        if noise_cohort_size:
            require(
                noise_cohort_size >= clients_per_round,
                "noise_cohort_size",
                f"must be 0 or >= `clients_per_round` = {clients_per_round}",
                noise_cohort_size,
            )
            multiplier = noise_multiplier * clients_per_round / noise_cohort_size
        # TFF has no event for correlated noise with participation limits; the ledger has it.
        event: dp_accounting.DpEvent = dp_accounting.UnsupportedDpEvent()
        is_independent = mechanism in ("gaussian", "gaussian_adaptive")
        if is_independent:
            event = dp_accounting.GaussianDpEvent(multiplier)
        self._arguments: dict[str, Any] = {
            "clip_norm": float(clip_norm),
            "noise_multiplier": multiplier,
            "event": event,
            "denominator": float(clients_per_round),
            "adaptive": adaptive,
            "grid_bits": BITS if self._is_discrete else 0,
            "draws_noise": draws_noise and is_independent and not self._is_discrete,
            "takes_sums": takes_sums,
        }

    @property
    def noise_facts(self) -> Mapping[str, float | str]:
        """The options that determine the size of the noise; see `with_noise`."""
        adaptive = self._arguments["adaptive"]
        return {
            "mechanism_name": self._mechanism,
            "noise_multiplier": self._arguments["noise_multiplier"],
            "clip_norm": self._arguments["clip_norm"],
            "clients_per_round": self._arguments["denominator"],
            "grid_bits": self._arguments["grid_bits"],
            "takes_sums": self._arguments["takes_sums"],
            "adaptive": "" if adaptive is None else repr(adaptive),
        }

    def noise_mechanism(
        self, *, rounds: int, min_separation_rounds: int = 1, momentum: float = 0.0
    ) -> mechanisms.Mechanism:
        """Returns the mechanism whose noise the rounds need; see `with_noise`."""
        if self._mechanism == "gaussian":
            return mechanisms.Gaussian(is_discrete=self._is_discrete)
        return mechanisms.optimal_mechanism(
            self._mechanism,
            rounds=rounds,
            min_separation=min_separation_rounds,
            buffers=self._buffers,
            momentum=momentum,
        )

    def create(self, value_type: tff.Type) -> tff.templates.AggregationProcess:
        """Creates the process for these types."""
        require_float_tensors(value_type, "A private mean")
        specs = tff.types.type_to_tf_tensor_specs(value_type)
        query = NoisedSumQuery(specs=specs, **self._arguments)
        return tff.aggregators.DifferentiallyPrivateFactory(query).create(value_type)


def _adaptive_clip(
    noise_multiplier: float,
    clients_per_round: int,
    *,
    target_unclipped_quantile: float,
    clip_learning_rate: float,
    clipped_count_noise: float,
) -> adaptive_clip.AdaptiveClip:
    require(
        0 < target_unclipped_quantile < 1,
        "target_unclipped_quantile",
        "must be in (0, 1)",
        target_unclipped_quantile,
    )
    POSITIVE.check("clip_learning_rate", clip_learning_rate)
    NOT_NEGATIVE.check("clipped_count_noise", clipped_count_noise)
    adaptive = adaptive_clip.AdaptiveClip(
        target_quantile=target_unclipped_quantile,
        learning_rate=clip_learning_rate,
        count_stddev=clipped_count_noise * clients_per_round,
        expected_clients=float(clients_per_round),
    )
    # raises here instead of later in `create`
    adaptive_clip.delta_noise_multiplier(noise_multiplier, adaptive.count_stddev)
    return adaptive
