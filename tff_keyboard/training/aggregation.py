"""Builds the aggregator of a run from `[aggregation]`, with the steps that an update passes before.

An update passes these steps, from outside in:

    guard            rejects NaN, infinity and impossible weights; limits claims; counts both
    weight cap       twice the median weight of earlier rounds at most, unless all weights are equal
    row correction   rows of word tables count the clients that typed the word, if configured
    client noise     FedAtt's eq. 6, if configured
    compression      quantises and decodes; or only counts bytes
    zeroing          updates with an extreme coordinate become zeros (adaptive quantile)
    clipping         whole updates to an L2 norm (adaptive quantile, or fixed)
    aggregator       `aggregation.rule`: a part of `aggregators/registry/`, or the user's own

Every factory is weighted. If privacy needs equal clients, the factory drops the weight.
"""

import dataclasses
import math
from collections.abc import Sequence

import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.aggregators import row_correction, upload_size
from tff_keyboard.aggregators.compression import CompressedUploadFactory
from tff_keyboard.aggregators.fedatt.client_noise import ClientNoiseFactory
from tff_keyboard.aggregators.guards import norm_bounds
from tff_keyboard.aggregators.guards.update_guard import (
    UpdateGuardFactory,
    WeightLimit,
    zero_or_one,
)
from tff_keyboard.aggregators.guards.weight_cap import WeightCapFactory
from tff_keyboard.aggregators.processes import Factory, as_weighted
from tff_keyboard.aggregators.row_correction import RowCorrectionFactory
from tff_keyboard.config.sections import aggregation_config as tables
from tff_keyboard.config.sections.aggregation_config import AggregationConfig
from tff_keyboard.parts.aggregator import AggregatorRun

_estimate_quantile = tff.aggregators.PrivateQuantileEstimationProcess.no_noise


def build_aggregator(
    config: AggregationConfig,
    *,
    clients_per_round: int,
    seed: int,
    variable_names: Sequence[str] | None = None,
    limit: WeightLimit | None = None,
    takes_sums: bool = False,
) -> Factory:
    """Builds the factory of a config, with its protection.

    Args:
      config: The table `[aggregation]`.
      clients_per_round: The report goal: the denominator of private means, and the buffer of
        FedMed.
      seed: Seed of the run. Noise and rounding are pure functions of the seed and the round.
      variable_names: Names of the tensors of an update, in order, for `layer_groups`.
      limit: Bounds on a client's weight. None means no bounds; weights are capped in any case.
      takes_sums: See `AggregatorRun`.

    Returns:
      A weighted factory. Weights are float32 scalars; for "fedmed" they are `fedmed_weight_type`,
      which `build_scored_client_work` computes.

    Raises:
      ValueError: Options do not fit `clients_per_round`.
    """
    run = AggregatorRun(
        clients_per_round=clients_per_round,
        seed=seed,
        variable_names=variable_names,
        takes_sums=takes_sums,
    )
    return protect(build_rule(config, run), config, run, limit)


def build_rule(config: AggregationConfig, run: AggregatorRun) -> Factory:
    """Builds the factory of `aggregation.rule` without protection."""
    if config.is_private:
        run = dataclasses.replace(run, privacy=config.privacy)
    return as_weighted(config.rule.build(run))


def protect(
    factory: Factory,
    config: AggregationConfig,
    run: AggregatorRun,
    limit: WeightLimit | None = None,
) -> Factory:
    """Returns an aggregator inside the steps of a config; see `build_aggregator`."""
    for step in (_clip, _zero, _compress, _add_client_noise, _correct_rows, _cap_weights):
        factory = step(factory, config, run)
    return UpdateGuardFactory(factory, limit=limit)


def build_weight_limit(config: AggregationConfig, vocabulary_size: int) -> WeightLimit:
    """Returns the bounds on a client's weight. `weight_cap.py` then caps the weights."""
    limit: WeightLimit = zero_or_one if config.client_weighting == "uniform" else tf.identity
    if isinstance(config.row_correction, tables.FedSubAvgConfig):
        return row_correction.limit_row_weight(limit)
    return config.rule.limit_weight(limit, vocabulary_size)


def _clip(factory: Factory, config: AggregationConfig, run: AggregatorRun) -> Factory:
    """Adds the step that clips updates to a fixed norm, or to an estimated quantile of norms."""
    protection = config.resolved_protection
    if isinstance(protection, tables.FixedClipping):
        return norm_bounds.clipping_factory(protection.clip_norm, factory)
    if isinstance(protection, tables.AdaptiveClipping):
        bound = _estimate_quantile(
            initial_estimate=protection.clip_norm,
            target_quantile=protection.quantile,
            learning_rate=protection.learning_rate,
        )
        return norm_bounds.clipping_factory(bound, factory)
    return factory


def _zero(factory: Factory, config: AggregationConfig, run: AggregatorRun) -> Factory:
    """Adds the step that zeroes updates whose norm is far above that of the others."""
    if not config.resolved_protection.zeroing:
        return factory
    # As `_default_zeroing` of TFF's federated/learning/model_update_aggregator.py: within a round
    # or two at twice the 98 % quantile, plus one.
    bound = _estimate_quantile(
        initial_estimate=10.0,
        target_quantile=0.98,
        learning_rate=math.log(10.0),
        multiplier=2.0,
        increment=1.0,
    )
    return norm_bounds.zeroing_factory(bound, factory)


def _compress(factory: Factory, config: AggregationConfig, run: AggregatorRun) -> Factory:
    if isinstance(config.compression, tables.UniformQuantization):
        options = config.compression.arguments()
        return CompressedUploadFactory(factory, **options, seed=run.seed)
    return upload_size.UploadSizeFactory(factory)


def _add_client_noise(factory: Factory, config: AggregationConfig, run: AggregatorRun) -> Factory:
    if not isinstance(config.client_noise, tables.NormalClientNoise):
        return factory
    return ClientNoiseFactory(factory, **config.client_noise.arguments(), seed=run.seed)


def _correct_rows(factory: Factory, config: AggregationConfig, run: AggregatorRun) -> Factory:
    if not isinstance(config.row_correction, tables.FedSubAvgConfig):
        return factory
    options = config.row_correction.arguments()
    return RowCorrectionFactory(factory, **options, variable_names=run.variable_names or ())


def _cap_weights(factory: Factory, config: AggregationConfig, run: AggregatorRun) -> Factory:
    return factory if config.client_weighting == "uniform" else WeightCapFactory(factory)
