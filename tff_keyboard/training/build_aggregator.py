"""Builds the factory of `[aggregation]`: the aggregator, its protection, privacy and compression.

The order is from outside in, so an update passes them in this order:

    guard            rejects NaN, infinity and impossible weights; limits claims; counts both
    weight cap       twice the median weight of earlier rounds at most, unless all weights are equal
    row correction   rows of word tables count the clients that typed the word, if configured
    client noise     FedAtt's eq. 6, if configured
    compression      quantises and decodes; or only counts bytes
    zeroing          updates with an extreme coordinate become zeros (adaptive quantile)
    clipping         whole updates to an L2 norm (adaptive quantile, or fixed)
    aggregator       mean, FedAtt, FedMed, private FedAtt, median, trimmed mean, private mean

Every factory here is weighted. If privacy needs equal clients, the factory drops the weight.
"""

import math
from collections.abc import Sequence
from typing import TypeAlias, assert_never

import tensorflow_federated as tff

from tff_keyboard.aggregators import upload_size
from tff_keyboard.aggregators.bounded_trimmed_mean import BoundedTrimmedMeanFactory
from tff_keyboard.aggregators.compression import CompressedUploadFactory
from tff_keyboard.aggregators.fedatt.aggregator import FedAttFactory
from tff_keyboard.aggregators.fedatt.client_noise import ClientNoiseFactory
from tff_keyboard.aggregators.fedatt.private_fedatt import PrivateFedAttFactory
from tff_keyboard.aggregators.fedmed.aggregator import FedMedFactory
from tff_keyboard.aggregators.guards import norm_bounds
from tff_keyboard.aggregators.guards.update_guard import UpdateGuardFactory, WeightLimit
from tff_keyboard.aggregators.guards.weight_cap import WeightCapFactory
from tff_keyboard.aggregators.private.private_mean import PrivateMeanFactory
from tff_keyboard.aggregators.processes import Factory
from tff_keyboard.aggregators.robust_mean import MedianFactory, TrimmedMeanFactory
from tff_keyboard.aggregators.row_correction import RowCorrectionFactory
from tff_keyboard.config.sections import aggregation_config as tables
from tff_keyboard.config.sections import rule_config as rules
from tff_keyboard.config.sections.privacy_config import GaussianConfig, MechanismConfig

Names: TypeAlias = Sequence[str] | None


def build_rule(
    config: tables.AggregationConfig,
    *,
    clients_per_round: int,
    variable_names: Names = None,
    takes_sums: bool = False,
) -> Factory:
    """Builds the factory of `aggregation.rule` without protection (see `build_aggregator`).

    Args:
      config: The table `[aggregation]`.
      clients_per_round: The report goal.
      variable_names: Names of the tensors of an update, in order.
      takes_sums: Whether a private mean takes sums of updates. A mean takes the mean of a sum as
        one update.
    """
    rule, privacy, names = config.rule, config.privacy, variable_names
    match rule:
        case rules.MeanConfig() if config.is_private:
            assert isinstance(privacy, MechanismConfig)
            private = PrivateMeanFactory(
                privacy=privacy,
                clients_per_round=clients_per_round,
                draws_noise=False,
                takes_sums=takes_sums,
            )
            return tff.aggregators.as_weighted_aggregator(private)
        case rules.MeanConfig():
            return tff.aggregators.MeanFactory(no_nan_division=True)
        case rules.FedAttConfig():
            return FedAttFactory(**rule.arguments(), variable_names=names)
        case rules.FedMedConfig():
            return FedMedFactory(
                **rule.arguments(),
                max_clients=clients_per_round,
                variable_names=names,
            )
        case rules.PrivateFedAttConfig():
            assert isinstance(privacy, GaussianConfig)
            factory = PrivateFedAttFactory(
                **rule.arguments(),
                noise_multiplier=privacy.noise_multiplier,
                layer_clip_norm=privacy.clip_norm,
                variable_names=names,
                draws_noise=False,
            )
            return tff.aggregators.as_weighted_aggregator(factory)
        case rules.MedianConfig():
            return MedianFactory()
        case rules.TrimmedMeanConfig():
            return TrimmedMeanFactory(**rule.arguments())
        case rules.BoundedTrimmedMeanConfig():
            return BoundedTrimmedMeanFactory(**rule.arguments())
    assert_never(rule)  # mypy reports an aggregator without a case


def build_aggregator(
    config: tables.AggregationConfig,
    *,
    clients_per_round: int,
    seed: int,
    variable_names: Names = None,
    limit: WeightLimit | None = None,
) -> Factory:
    """Builds the factory of a config, with its protection.

    Args:
      config: The table `[aggregation]`.
      clients_per_round: The report goal: the denominator of private means, and the buffer of
        FedMed.
      seed: Seed of the run. Noise and rounding are pure functions of the seed and the round.
      variable_names: Names of the tensors of an update, in order, for `layer_groups`.
      limit: Bounds on a client's weight. None means no bounds; weights are capped in any case.

    Returns:
      A weighted factory. Weights are float32 scalars; for "fedmed" they are `fedmed_weight_type`,
      which `build_scored_client_work` computes.

    Raises:
      ValueError: Options do not fit `clients_per_round`.
    """
    rule = build_rule(config, clients_per_round=clients_per_round, variable_names=variable_names)
    return protect(rule, config, seed=seed, variable_names=variable_names, limit=limit)


def protect(
    factory: Factory,
    config: tables.AggregationConfig,
    *,
    seed: int,
    variable_names: Names = None,
    limit: WeightLimit | None = None,
) -> Factory:
    """Wraps a factory in all steps before the aggregator; see `build_aggregator`."""
    protection = config.resolved_protection
    factory = _clipped(factory, protection)
    if protection.zeroing:
        factory = norm_bounds.zeroing_factory(_zeroing_bound(), factory)
    if isinstance(config.compression, tables.UniformQuantization):
        factory = CompressedUploadFactory(factory, **config.compression.arguments(), seed=seed)
    else:
        factory = upload_size.UploadSizeFactory(factory)
    if isinstance(config.client_noise, tables.NormalClientNoise):
        factory = ClientNoiseFactory(factory, **config.client_noise.arguments(), seed=seed)
    if isinstance(config.row_correction, tables.FedSubAvgConfig):
        factory = RowCorrectionFactory(
            factory,
            largest_factor=config.row_correction.largest_factor,
            variable_names=variable_names or (),
        )
    if config.client_weighting != "uniform":
        factory = WeightCapFactory(factory)
    return UpdateGuardFactory(factory, limit=limit)


def _clipped(factory: Factory, protection: tables.Protection) -> Factory:
    if isinstance(protection, tables.FixedClipping):
        return norm_bounds.clipping_factory(protection.clip_norm, factory)
    if isinstance(protection, tables.AdaptiveClipping):
        bound = tff.aggregators.PrivateQuantileEstimationProcess.no_noise(
            initial_estimate=protection.clip_norm,
            target_quantile=protection.quantile,
            learning_rate=protection.learning_rate,
        )
        return norm_bounds.clipping_factory(bound, factory)
    return factory


def _zeroing_bound() -> tff.templates.EstimationProcess:
    # As `_default_zeroing` of TFF's federated/learning/model_update_aggregator.py: within a round
    # or two at twice the 98 % quantile, plus one.
    return tff.aggregators.PrivateQuantileEstimationProcess.no_noise(
        initial_estimate=10.0,
        target_quantile=0.98,
        learning_rate=math.log(10.0),
        multiplier=2.0,
        increment=1.0,
    )
