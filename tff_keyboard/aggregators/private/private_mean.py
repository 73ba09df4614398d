"""Differentially private means of clipped updates.

The denominator of the mean is the report goal, not the number of reports, because participation is
private. Client weights are ignored. Zeroing by a quantile without noise, which
`tff.learning.dp_aggregator` adds by default, is not offered, because no accounting covers it. The
noise of a round (independent, from a tree, or correlated) is put into the state before the round
(`host_noise.py`).
"""

from typing import Any

import dp_accounting
import tensorflow_federated as tff

from tff_keyboard.aggregators.layers import require_float_tensors
from tff_keyboard.aggregators.private import adaptive_clip
from tff_keyboard.aggregators.private.noised_sum import NoisedSumQuery
from tff_keyboard.config.reading import tables
from tff_keyboard.config.sections import privacy_config
from tff_keyboard.privacy.mechanisms.discrete_normal import BITS
from tff_keyboard.storage.checks import require_one_of

MECHANISMS = tables.variants(privacy_config.Privacy)
_OF_RUNS = ("noise_secret", "fixed_nonce")  # only used with a run directory


class PrivateMeanFactory(tff.aggregators.UnweightedAggregationFactory):
    """Noisy mean of clipped updates.

        mean = tk.aggregators.PrivateMean(
            noise_multiplier=1.0, clip_norm=0.3, clients_per_round=100
        )
        process = tff.learning.algorithms.build_unweighted_fed_avg(
            model_fn, tff.learning.optimizers.build_sgdm(0.5), model_aggregator=mean
        )

    With "gaussian" and "gaussian_adaptive" it works by itself in TFF code: TensorFlow draws the
    noise of each round. Use `with_noise` for noise from a secret key in double precision, which
    repeats when a run is resumed. The mechanisms with correlated noise require `with_noise`;
    without it their rounds fail.

    State: TFF's `DPAggregatorState`. Measurements: `dp_query_metrics` with `clip_norm` and
    `noise_stddev`, and `dp`.

    Args:
      privacy: Config, overridden by the other arguments that are not None. None means the config of
        `mechanism`.
      clients_per_round: The report goal, >= 1: the fixed denominator of the mean.
      noise_multiplier: Standard deviation of one draw of noise / clip norm, >= 0. With 0, updates
        are clipped and there is no guarantee. Required, unless `privacy` has it.
      clip_norm: L2 bound on one client's update, > 0, and the first one if it adapts; 1 if None.
      mechanism: "gaussian" (if None), "gaussian_adaptive", "tree" or "blt".
      draws_noise: Whether TensorFlow draws the noise of a round without noise from `with_noise`. If
        False, such a round fails. Correlated and discrete noise is never drawn.
      takes_sums: Whether the inputs are parts of a secure sum (`noised_sum.py`); only with
        `distribution` "discrete".
      **options: The mechanism's own fields, such as `distribution` or `buffers`.

    Attributes:
      privacy: Config from all arguments, an argument of `with_noise`.

    Raises:
      ValueError: If an argument is out of range or missing, or adaptive clipping would use up all
        noise.
      TypeError: If the mechanism has no such option.
    """

    def __init__(
        self,
        *,
        privacy: privacy_config.MechanismConfig | None = None,
        clients_per_round: int,
        noise_multiplier: float | None = None,
        clip_norm: float | None = None,
        mechanism: str | None = None,
        draws_noise: bool = True,
        takes_sums: bool = False,
        **options: Any,
    ):
        if clients_per_round < 1:
            raise ValueError(f"`clients_per_round` must be >= 1, got {clients_per_round}.")
        if unused := [name for name in options if name in _OF_RUNS]:
            raise TypeError(f"`{unused[0]}` has no effect here: `with_noise` takes the key.")
        if privacy is None:
            if noise_multiplier is None:
                raise ValueError("`noise_multiplier` is missing. Set it to 0 to clip only.")
            known = {
                name: cls for name, cls in MECHANISMS.items() if cls is not privacy_config.NoPrivacy
            }
            require_one_of("mechanism", mechanism or "gaussian", known)
            privacy = known[mechanism or "gaussian"]()
        require_one_of("mechanism", mechanism or privacy.type, [privacy.type])
        self.privacy = privacy = privacy.changed(
            noise_multiplier=noise_multiplier, clip_norm=clip_norm, **options
        )
        adaptive = None
        if isinstance(privacy, privacy_config.GaussianAdaptiveConfig):
            adaptive = adaptive_clip.AdaptiveClip(
                target_quantile=privacy.target_unclipped_quantile,
                learning_rate=privacy.clip_learning_rate,
                count_stddev=privacy.clipped_count_noise * clients_per_round,
                expected_clients=float(clients_per_round),
            )
            # raises here instead of later in `create`
            adaptive_clip.delta_noise_multiplier(privacy.noise_multiplier, adaptive.count_stddev)
        multiplier = _multiplier_here(privacy, clients_per_round)
        # TFF has no event for correlated noise with participation limits; the ledger has it.
        event: dp_accounting.DpEvent = dp_accounting.UnsupportedDpEvent()
        is_independent = isinstance(
            privacy, privacy_config.GaussianConfig | privacy_config.GaussianAdaptiveConfig
        )
        if is_independent:
            event = dp_accounting.GaussianDpEvent(multiplier)
        is_discrete = isinstance(privacy, privacy_config.GaussianConfig) and privacy.is_discrete
        if takes_sums and not is_discrete:
            raise ValueError("`takes_sums` needs `distribution` = 'discrete': sums of integers.")
        self._arguments: dict[str, Any] = {
            "clip_norm": float(privacy.clip_norm),
            "noise_multiplier": multiplier,
            "event": event,
            "denominator": float(clients_per_round),
            "adaptive": adaptive,
            "grid_bits": BITS if is_discrete else 0,
            "draws_noise": draws_noise and is_independent and not is_discrete,
            "takes_sums": takes_sums,
        }

    def create(self, value_type: tff.Type) -> tff.templates.AggregationProcess:
        """Creates the process for these types."""
        require_float_tensors(value_type, "A private mean")
        specs = tff.types.type_to_tf_tensor_specs(value_type)
        query = NoisedSumQuery(specs=specs, **self._arguments)
        factory = tff.aggregators.DifferentiallyPrivateFactory(query)
        return factory.create(value_type)


def _multiplier_here(privacy: privacy_config.MechanismConfig, clients_per_round: int) -> float:
    """Returns the noise multiplier of this cohort, smaller if it simulates a larger one."""
    size = privacy.noise_cohort_size
    if not size:
        return float(privacy.noise_multiplier)
    if size < clients_per_round:
        raise ValueError(
            f"`aggregation.privacy.noise_cohort_size` must be 0 or >= `train.clients_per_round` = "
            f"{clients_per_round}, got {size}."
        )
    return privacy.noise_multiplier * clients_per_round / size
