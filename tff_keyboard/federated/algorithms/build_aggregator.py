"""From `[aggregation]` to a factory: the rule by name, its protection, privacy and compression.

From outside in, and so in the order a delta meets them:

    guard            refuses NaN, infinity, senseless weights; limits claims; counts both
    weight cap       twice the median weight of earlier rounds at most, unless all weigh alike
    row correction   rows of word tables count those who typed the word, where asked for
    client noise     FedAtt's eq. 6, where asked for
    compression      quantises and decodes; or only counts bytes
    zeroing          deltas with an extreme coordinate become zeros (adaptive quantile)
    clipping         whole deltas to an L2 norm (adaptive quantile, or fixed)
    rule             mean, FedAtt, FedMed, private FedAtt, median, trimmed mean, private mean

Every factory here is weighted; where privacy demands equal clients the weight is dropped inside.
"""

import math
from collections.abc import Sequence
from typing import TypeAlias, assert_never

import tensorflow_federated as tff

from tff_keyboard.config.sections import aggregation_config as tables
from tff_keyboard.config.sections import rule_config as rules
from tff_keyboard.config.sections.privacy_config import Gaussian, MechanismConfig
from tff_keyboard.federated.aggregation import upload_size
from tff_keyboard.federated.aggregation.bounded_trimmed_mean import BoundedTrimmedMeanFactory
from tff_keyboard.federated.aggregation.compression import CompressedUploadFactory
from tff_keyboard.federated.aggregation.guards import norm_bounds
from tff_keyboard.federated.aggregation.guards.update_guard import UpdateGuardFactory, WeightLimit
from tff_keyboard.federated.aggregation.guards.weight_cap import WeightCapFactory
from tff_keyboard.federated.aggregation.private.private_mean import PrivateMeanFactory
from tff_keyboard.federated.aggregation.processes import Factory
from tff_keyboard.federated.aggregation.robust_mean import MedianFactory, TrimmedMeanFactory
from tff_keyboard.federated.aggregation.row_correction import RowCorrectionFactory
from tff_keyboard.federated.algorithms.fedatt.aggregator import FedAttFactory
from tff_keyboard.federated.algorithms.fedatt.client_noise import ClientNoiseFactory
from tff_keyboard.federated.algorithms.fedatt.private_fedatt import PrivateFedAttFactory
from tff_keyboard.federated.algorithms.fedmed.aggregator import FedMedFactory

Names: TypeAlias = Sequence[str] | None


def build_rule(
    config: tables.AggregationConfig,
    *,
    clients_per_round: int,
    variable_names: Names = None,
    takes_sums: bool = False,
) -> Factory:
    """The factory of `aggregation.rule`, bare; see `build_aggregator`.

    `takes_sums` is that of a private mean; a mean takes the mean of a sum as one delta.
    """
    rule, privacy, names = config.rule, config.privacy, variable_names
    match rule:
        case rules.Mean() if config.is_private:
            assert isinstance(privacy, MechanismConfig)
            private = PrivateMeanFactory(
                privacy, clients_per_round=clients_per_round, takes_sums=takes_sums
            )
            return tff.aggregators.as_weighted_aggregator(private)
        case rules.Mean():
            return tff.aggregators.MeanFactory(no_nan_division=True)
        case rules.FedAtt():
            return FedAttFactory(rule, variable_names=names)
        case rules.FedMed():
            return FedMedFactory(
                rule,
                max_clients=clients_per_round,
                variable_names=names,
            )
        case rules.PrivateFedAtt():
            assert isinstance(privacy, Gaussian)
            factory = PrivateFedAttFactory(
                rule,
                noise_multiplier=privacy.noise_multiplier,
                layer_clip_norm=privacy.clip_norm,
                variable_names=names,
            )
            return tff.aggregators.as_weighted_aggregator(factory)
        case rules.Median():
            return MedianFactory()
        case rules.TrimmedMean():
            return TrimmedMeanFactory(rule)
        case rules.BoundedTrimmedMean():
            return BoundedTrimmedMeanFactory(rule)
    assert_never(rule)  # mypy says which rule has no case


def build_aggregator(
    config: tables.AggregationConfig,
    *,
    clients_per_round: int,
    seed: int,
    variable_names: Names = None,
    limit: WeightLimit | None = None,
) -> Factory:
    """The factory a config describes, protected and composed.

    Args:
      clients_per_round: The report goal; denominator of private means, buffer of FedMed.
      seed: Seed of the run; noise and rounding are pure functions of it and the round.
      variable_names: Names of the tensors of a delta, in order; what `layer_groups` may name.
      limit: What no client can claim; None: nothing. Weights are capped all the same.

    Returns:
      A weighted factory. Weights are float32 scalars; for "fedmed" they are `fedmed_weight_type`,
      which `build_scored_client_work` makes.

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
    """All that stands before a rule, around it; see `build_aggregator`."""
    protection = config.resolved_protection
    factory = _clipped(factory, protection)
    if protection.zeroing:
        factory = norm_bounds.zeroing_factory(_zeroing_bound(), factory)
    if isinstance(config.compression, tables.UniformQuantization):
        factory = CompressedUploadFactory(factory, config.compression, seed=seed)
    else:
        factory = upload_size.UploadSizeFactory(factory)
    if isinstance(config.client_noise, tables.NormalClientNoise):
        factory = ClientNoiseFactory(factory, config.client_noise, seed=seed)
    if isinstance(config.row_correction, tables.TouchedRows):
        factory = RowCorrectionFactory(
            factory,
            largest_factor=config.row_correction.largest_factor,
            variable_names=variable_names or (),
        )
    if config.client_weighting != "uniform":
        factory = WeightCapFactory(factory)
    return UpdateGuardFactory(factory, limit)


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
