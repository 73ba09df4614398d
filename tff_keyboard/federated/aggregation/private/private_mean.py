"""Differentially private means of clipped deltas; which noise they get is decided outside.

The mean's denominator is the report goal, not the number of reports: who took part is private.
Client weights are ignored. Zeroing by an un-noised quantile, as `tff.learning.dp_aggregator` adds
by default, is not offered: no accounting covers it. The noise of a round, independent or a tree's
or correlated, is put into the state before the round (`host_noise.py`).
"""

from typing import Any

import dp_accounting
import tensorflow_federated as tff

from tff_keyboard.config.reading import tables
from tff_keyboard.config.reading.checks import require_one_of
from tff_keyboard.config.sections import privacy_config
from tff_keyboard.federated.aggregation.layers import require_float_tensors
from tff_keyboard.federated.aggregation.private import adaptive_clip
from tff_keyboard.federated.aggregation.private.noised_sum import NoisedSumQuery
from tff_keyboard.privacy.mechanisms.discrete_normal import BITS

MECHANISMS = tables.variants(privacy_config.Privacy)
_OF_RUNS = ("noise_secret", "fixed_nonce", "participation")  # what only a run directory keeps


class PrivateMeanFactory(tff.aggregators.UnweightedAggregationFactory):
    """Noisy mean of clipped deltas; state and measurements are TFF's `DPAggregatorState`.

    A process of it needs `with_noise` around it: without the noise of its round the mean is NaN.
    Measurements: `dp_query_metrics` with `clip_norm` and `noise_stddev`, and `dp`.

    Args:
      privacy: Config, which the other arguments change where not None. None: that of `mechanism`.
      clients_per_round: The report goal, >= 1: the mean's fixed denominator.
      noise_multiplier: Standard deviation of one draw of noise / clip norm, >= 0; 0 clips and
        claims nothing. Has no default but that of `privacy`.
      clip_norm: L2 bound on one client's delta, > 0, the first one where it adapts; 1 if None.
      mechanism: "gaussian" (if None), "gaussian_adaptive", "tree", "tree_adaptive", "blt" or
        "banded".
      takes_sums: Whether what is aggregated are parts of a secure sum (`noised_sum.py`); with
        `distribution` "discrete" alone.
      **options: The mechanism's own fields, such as `distribution` or `buffers`.

    Attributes:
      privacy: Config as all arguments make it; `with_noise` takes it.

    Raises:
      ValueError: An argument is out of range or missing; adaptive clipping would spend all noise.
      TypeError: The mechanism has no such option.
    """

    def __init__(
        self,
        privacy: privacy_config.MechanismConfig | None = None,
        *,
        clients_per_round: int,
        noise_multiplier: float | None = None,
        clip_norm: float | None = None,
        mechanism: str | None = None,
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
        self.privacy = privacy = privacy.changed(
            mechanism=mechanism, noise_multiplier=noise_multiplier, clip_norm=clip_norm, **options
        )
        adaptive, clip_every = None, 1
        if isinstance(privacy, privacy_config.GaussianAdaptive | privacy_config.TreeAdaptive):
            adaptive = adaptive_clip.AdaptiveClip(
                target_quantile=privacy.target_unclipped_quantile,
                learning_rate=privacy.clip_learning_rate,
                count_stddev=privacy.clipped_count_noise * clients_per_round,
                expected_clients=float(clients_per_round),
            )
            # refuses now what `create` would refuse later
            adaptive_clip.delta_noise_multiplier(privacy.noise_multiplier, adaptive.count_stddev)
        if isinstance(privacy, privacy_config.TreeAdaptive):
            clip_every = privacy.restart_rounds
        multiplier = _multiplier_here(privacy, clients_per_round)
        # No event of TFF's says "correlated, with participation limits": the ledger does.
        event: dp_accounting.DpEvent = dp_accounting.UnsupportedDpEvent()
        if isinstance(privacy, privacy_config.Gaussian | privacy_config.GaussianAdaptive):
            event = dp_accounting.GaussianDpEvent(multiplier)
        is_discrete = isinstance(privacy, privacy_config.Gaussian) and privacy.is_discrete
        if takes_sums and not is_discrete:
            raise ValueError("`takes_sums` needs `distribution` = 'discrete': sums of integers.")
        self._arguments: dict[str, Any] = {
            "clip_norm": float(privacy.clip_norm),
            "noise_multiplier": multiplier,
            "event": event,
            "denominator": float(clients_per_round),
            "adaptive": adaptive,
            "clip_every": clip_every,
            "grid_bits": BITS if is_discrete else 0,
            "takes_sums": takes_sums,
        }

    def create(self, value_type: tff.Type) -> tff.templates.AggregationProcess:
        """The process, for these types."""
        require_float_tensors(value_type, "A private mean")
        specs = tff.types.type_to_tf_tensor_specs(value_type)
        query = NoisedSumQuery(specs=specs, **self._arguments)
        factory = tff.aggregators.DifferentiallyPrivateFactory(query)
        return factory.create(value_type)


def _multiplier_here(privacy: privacy_config.MechanismConfig, clients_per_round: int) -> float:
    """Noise multiplier of this cohort's sum: less where a larger cohort's noise is simulated."""
    size = privacy.noise_cohort_size
    if not size:
        return float(privacy.noise_multiplier)
    if size < clients_per_round:
        raise ValueError(
            f"`aggregation.privacy.noise_cohort_size` must be 0 or >= `train.clients_per_round` = "
            f"{clients_per_round}, got {size}."
        )
    return privacy.noise_multiplier * clients_per_round / size
