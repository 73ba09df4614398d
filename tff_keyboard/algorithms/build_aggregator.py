"""From `[aggregation]` to a factory: the rule by name, its protection, privacy and compression.

From outside in, and so in the order a delta meets them:

    guard            refuses NaN, infinity, senseless weights; limits weights; counts both
    client noise     FedAtt's eq. 6, where asked for
    compression      quantises and decodes; or only counts bytes
    zeroing          deltas with an extreme coordinate become zeros (adaptive quantile)
    clipping         whole deltas to an L2 norm (adaptive quantile, or fixed)
    rule             mean, FedAtt, FedMed, private FedAtt, median, trimmed mean, private mean

Every factory here is weighted; where privacy demands equal clients the weight is dropped inside.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import tensorflow_federated as tff

from tff_keyboard.aggregation import compression, robust_mean
from tff_keyboard.aggregation.adaptive_clip import AdaptiveClip
from tff_keyboard.aggregation.private_mean import PrivateMeanFactory
from tff_keyboard.aggregation.robust_mean import RobustMeanFactory
from tff_keyboard.aggregation.update_guard import UpdateGuardFactory
from tff_keyboard.aggregation.upload_size import UploadSizeFactory, encoded_bytes, raw_bytes
from tff_keyboard.aggregation.weight_limits import WeightLimit
from tff_keyboard.algorithms.fedatt.aggregator import FedAttFactory
from tff_keyboard.algorithms.fedatt.client_noise import ClientNoiseFactory
from tff_keyboard.algorithms.fedatt.private_fedatt import PrivateFedAttFactory
from tff_keyboard.algorithms.fedmed.aggregator import FedMedFactory
from tff_keyboard.config.aggregation_config import AggregationConfig
from tff_keyboard.privacy import mechanism

Factory: TypeAlias = tff.aggregators.WeightedAggregationFactory
Names: TypeAlias = Sequence[str] | None


def _mean(config: AggregationConfig, clients_per_round: int, seed: int, names: Names) -> Factory:
    if config.dp != "none":
        adaptive = None
        if config.uses_adaptive_clip:
            adaptive = AdaptiveClip(
                target_quantile=config.target_unclipped_quantile,
                learning_rate=config.clip_learning_rate,
                count_stddev=config.clipped_count_noise * clients_per_round,
                expected_clients=float(clients_per_round),
            )
        private = PrivateMeanFactory(
            clip_norm=config.clip_norm,
            noise_multiplier=config.noise_multiplier,
            clients_per_round=clients_per_round,
            independent_noise=config.dp in mechanism.GAUSSIAN,
            adaptive=adaptive,
            clip_every=config.tree_restart_rounds or 1,
        )
        return tff.aggregators.as_weighted_aggregator(private)
    value_sum = None
    if config.compression == "tff_quantization":
        value_sum = compression.tff_quantized_sum(
            bits=config.compression_bits, threshold=config.compression_threshold
        )
    return tff.aggregators.MeanFactory(value_sum_factory=value_sum, no_nan_division=True)


def _fedatt(config: AggregationConfig, clients_per_round: int, seed: int, names: Names) -> Factory:
    return FedAttFactory(
        norm=config.norm,
        temperature=config.temperature,
        layer_groups=config.layer_groups,
        variable_names=names,
    )


def _fedmed(config: AggregationConfig, clients_per_round: int, seed: int, names: Names) -> Factory:
    return FedMedFactory(
        top_fraction=config.top_fraction,
        mediation_threshold=config.mediation_threshold,
        adaptive_step=config.adaptive_step,
        max_clients=clients_per_round,
        upload_bytes=_upload_bytes(config),
        layer_groups=config.layer_groups,
        variable_names=names,
    )


def _private_fedatt(
    config: AggregationConfig, clients_per_round: int, seed: int, names: Names
) -> Factory:
    private = PrivateFedAttFactory(
        noise_multiplier=config.noise_multiplier,
        layer_clip_norm=config.layer_clip_norm,
        attention_bound=config.attention_bound,
        denominator_scale=config.denominator_scale,
        denominator_floor=config.denominator_floor,
        layer_groups=config.layer_groups,
        variable_names=names,
    )
    return tff.aggregators.as_weighted_aggregator(private)


def _median(config: AggregationConfig, clients_per_round: int, seed: int, names: Names) -> Factory:
    return RobustMeanFactory(robust_mean.MEDIAN)


def _trimmed(config: AggregationConfig, clients_per_round: int, seed: int, names: Names) -> Factory:
    return RobustMeanFactory(robust_mean.TRIMMED_MEAN, trim_fraction=config.trim_fraction)


AGGREGATORS: Mapping[str, Callable[[AggregationConfig, int, int, Names], Factory]] = {
    "mean": _mean,
    "fedatt": _fedatt,
    "fedmed": _fedmed,
    "private_fedatt": _private_fedatt,
    "median": _median,
    "trimmed_mean": _trimmed,
}


def build_aggregator(
    config: AggregationConfig,
    *,
    clients_per_round: int,
    seed: int,
    variable_names: Names = None,
    limit: WeightLimit | None = None,
) -> Factory:
    """The factory a config describes, protected and composed.

    Args:
      config: The `[aggregation]` table.
      clients_per_round: The report goal; denominator of private means, buffer of FedMed.
      seed: Of the run; noise and rounding are pure functions of it and the round.
      variable_names: Of the tensors of a delta, in order; what `layer_groups` may name.
      limit: What a client's weight may count at most; None believes whatever it claims.

    Returns:
      A weighted factory. Weights are float32 scalars; for "fedmed" they are `fedmed_weight_type`,
      which `build_scored_client_work` makes.

    Raises:
      ValueError: Options do not fit `clients_per_round`.
    """
    factory = AGGREGATORS[config.name](config, clients_per_round, seed, variable_names)
    factory = _clipped(factory, config)
    if config.resolved_zeroing:
        factory = tff.aggregators.zeroing_factory(_zeroing_bound(), factory)
    factory = _compressed(factory, config, seed)
    if config.client_noise_scale > 0:
        factory = ClientNoiseFactory(
            factory,
            scale=config.client_noise_scale,
            stddev=config.client_noise_stddev,
            seed=seed,
        )
    return UpdateGuardFactory(factory, limit)


def _upload_bytes(config: AggregationConfig) -> Callable[[tff.Type], int]:
    """Size of one client's upload, by the type of its delta."""
    if config.compression == "none":
        return raw_bytes
    return functools.partial(
        encoded_bytes, bits=config.compression_bits, threshold=config.compression_threshold
    )


def _clipped(factory: Factory, config: AggregationConfig) -> Factory:
    if config.resolved_clipping == "off":
        return factory
    if config.resolved_clipping == "fixed":
        return tff.aggregators.clipping_factory(config.clip_norm, factory)
    bound = tff.aggregators.PrivateQuantileEstimationProcess.no_noise(
        initial_estimate=config.clip_norm,
        target_quantile=config.clipping_quantile,
        learning_rate=config.clipping_learning_rate,
    )
    return tff.aggregators.clipping_factory(bound, factory)


def _zeroing_bound():
    # TFF's default: within a round or two at twice the 98 % quantile, plus one.
    return tff.aggregators.PrivateQuantileEstimationProcess.no_noise(
        initial_estimate=10.0,
        target_quantile=0.98,
        learning_rate=math.log(10.0),
        multiplier=2.0,
        increment=1.0,
    )


def _compressed(factory: Factory, config: AggregationConfig, seed: int) -> Factory:
    if config.compression == "uniform_quantization":
        return compression.CompressedUploadFactory(
            factory,
            bits=config.compression_bits,
            threshold=config.compression_threshold,
            seed=seed,
        )
    bits = config.compression_bits if config.compression == "tff_quantization" else None
    return UploadSizeFactory(factory, bits=bits, threshold=config.compression_threshold)
