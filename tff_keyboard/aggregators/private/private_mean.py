"""Differentially private means of clipped updates.

The denominator of the mean is the report goal, not the number of reports, because participation is
private. Client weights are ignored. Zeroing by a quantile without noise, which
`tff.learning.dp_aggregator` adds by default, is not offered, because no accounting covers it. The
noise of a round (independent, from a tree, or correlated) is put into the state before the round
(`algorithms/rounds/noised.py`).
"""

from collections.abc import Mapping
from typing import Any

import dp_accounting
import tensorflow_federated as tff

from tff_keyboard.aggregators.layers import require_float_tensors
from tff_keyboard.aggregators.private import adaptive_clip
from tff_keyboard.aggregators.private.noised_sum import NoisedSumQuery
from tff_keyboard.parts.privacy_mechanism import MechanismConfig, mechanism_configs
from tff_keyboard.privacy.mechanisms import sum_grid
from tff_keyboard.privacy.mechanisms.discrete_normal import BITS
from tff_keyboard.privacy.mechanisms.mechanism import Mechanism
from tff_keyboard.privacy.registry.gaussian_adaptive import GaussianAdaptiveConfig
from tff_keyboard.storage.checks import require, require_one_of


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
        follows a noisy quantile), "tree" or "blt" (correlated noise), as in
        `aggregation.privacy.type`.
      noise_cohort_size: 0, or the clients per round of a larger federation whose noise is
        simulated, >= `clients_per_round`.
      draws_noise: Whether TensorFlow draws the noise of a round if `with_noise` does not supply it.
        If False, such a round fails. TensorFlow never draws correlated or discrete noise.
      takes_sums: Whether the inputs are parts of a secure sum (`noised_sum.py`), in steps of
        `sum_grid.sum_step`. Requires noise, and a clip norm that does not adapt.
      **options: Options of the mechanism, as in `[aggregation.privacy]`, such as
        `distribution="discrete"` or `buffers=3`.

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
        mechanism: str = "gaussian",
        noise_cohort_size: int = 0,
        draws_noise: bool = True,
        takes_sums: bool = False,
        **options: Any,
    ):
        require(clients_per_round >= 1, "clients_per_round", "must be >= 1", clients_per_round)
        configs = mechanism_configs()
        require_one_of("mechanism", mechanism, configs)
        defaults = configs[mechanism]().own_options()
        for name in options:
            if name not in defaults:
                raise TypeError(f"`{name}` has no effect with `mechanism` = {mechanism!r}.")
        config = configs[mechanism].of_arguments(
            clip_norm=clip_norm, noise_multiplier=noise_multiplier, **options
        )
        if takes_sums and config.is_adaptive:
            raise ValueError(
                f"`takes_sums` needs a fixed clip norm, got `mechanism` = {mechanism!r}: the norm "
                "would follow the number of unclipped updates, which no sum of updates contains."
            )
        if takes_sums:
            require(noise_multiplier > 0, "noise_multiplier", "must be > 0", noise_multiplier)
        self._config: MechanismConfig = config
        adaptive = None
        if isinstance(config, GaussianAdaptiveConfig):
            adaptive = adaptive_clip.AdaptiveClip(
                target_quantile=config.target_unclipped_quantile,
                learning_rate=config.clip_learning_rate,
                count_stddev=config.clipped_count_noise * clients_per_round,
                expected_clients=float(clients_per_round),
            )
            # raises here instead of later in `create`
            adaptive_clip.delta_noise_multiplier(noise_multiplier, adaptive.count_stddev)
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
        is_independent = Mechanism.REGISTRY[mechanism].is_independent
        if is_independent:
            event = dp_accounting.GaussianDpEvent(multiplier)
        self._arguments: dict[str, Any] = {
            "clip_norm": float(clip_norm),
            "noise_multiplier": multiplier,
            "event": event,
            "denominator": float(clients_per_round),
            "adaptive": adaptive,
            "steps_per_stddev": (
                sum_grid.steps_per_stddev(multiplier, is_discrete=config.is_discrete)
                if config.is_discrete or takes_sums
                else 0.0
            ),
            "draws_noise": draws_noise and is_independent and not config.is_discrete,
            "takes_sums": takes_sums,
        }

    @property
    def noise_facts(self) -> Mapping[str, float | str]:
        """Name -> value: everything in this factory that its noise depends on.

        `algorithms.with_noise` binds the noise key to these values, so that a factory with another
        clip norm, mechanism or denominator never gets the same noise. `noise_multiplier` is the one
        in use, after `noise_cohort_size`; `clients_per_round` is the denominator.
        """
        adaptive = self._arguments["adaptive"]
        return {
            "mechanism_name": self._config.type,
            "noise_multiplier": self._arguments["noise_multiplier"],
            "clip_norm": self._arguments["clip_norm"],
            "clients_per_round": self._arguments["denominator"],
            "grid_bits": BITS if self._config.is_discrete else 0,
            "takes_sums": self._arguments["takes_sums"],
            "adaptive": "" if adaptive is None else repr(adaptive),
        }

    def noise_mechanism(
        self, *, rounds: int, min_separation_rounds: int = 1, momentum: float = 0.0
    ) -> Mechanism:
        """Returns the mechanism whose noise the rounds need; see `with_noise`."""
        return self._config.mechanism(
            rounds=rounds, min_separation_rounds=min_separation_rounds, momentum=momentum
        )

    def create(self, value_type: tff.Type) -> tff.templates.AggregationProcess:
        """Creates the process for these types."""
        require_float_tensors(value_type, "A private mean")
        specs = tff.types.type_to_tf_tensor_specs(value_type)
        query = NoisedSumQuery(specs=specs, **self._arguments)
        return tff.aggregators.DifferentiallyPrivateFactory(query).create(value_type)
