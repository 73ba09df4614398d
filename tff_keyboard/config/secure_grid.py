"""Which aggregations are sums of integers, which a secure sum can make, and on which grid.

A server that sees sums only cannot look at a delta: what weighs, bounds, drops or sorts deltas by
value is refused here, with the reason. What remains a device does itself: clip to a fixed norm,
round to the grid, and send nothing that is not finite. Nobody checks that it did.
"""

import dataclasses
import math

from tff_keyboard.config.sections import aggregation_config as tables
from tff_keyboard.config.sections import rule_config as rules
from tff_keyboard.config.sections.privacy_config import Gaussian
from tff_keyboard.storage.errors import ConfigError

_STEPS = 2**20  # of a clip norm, where no noise sets the grid; of a standard deviation with noise
_WORD_BITS = (32, 64)

_RULES = {
    rules.FedAtt: "attention needs each client's distance, and the largest of them",
    rules.FedMed: "topK and its weights need each client's loss and divergence",
    rules.PrivateFedAtt: "its records are not on a grid of integers",
    **dict.fromkeys(rules.ORDER_STATISTICS, "order statistics need the deltas side by side"),
}


@dataclasses.dataclass(frozen=True)
class SecureGrid:
    """What a device does before its masks, and the size of the sum.

    Attributes:
      clip_norm: L2 bound on the delta, in weight units.
      step: Weight units of one integer; deltas are rounded towards zero.
      bits: 32 or 64: no sum of the cohort's integers wraps around modulo 2^bits.
    """

    clip_norm: float
    step: float
    bits: int


def secure_grid(config: tables.AggregationConfig, *, clients_per_round: int) -> SecureGrid:
    """The grid of an aggregation of up to so many clients.

    Raises:
      ConfigError: It is no sum of clipped deltas of equal weight, or needs to see more.
    """
    _check(config)
    if isinstance(config.privacy, Gaussian):
        clip_norm = config.privacy.clip_norm
        step = config.privacy.noise_multiplier * clip_norm / _STEPS
    else:
        assert isinstance(config.protection, tables.FixedClipping)
        clip_norm = config.protection.clip_norm
        step = clip_norm / _STEPS
    range_bits = math.log2(2 * clients_per_round * (clip_norm / step + 1))
    bits = next((bits for bits in _WORD_BITS if range_bits < bits), None)
    if bits is None:
        raise ConfigError(
            f"`aggregation.privacy.noise_multiplier` = {step * _STEPS / clip_norm:g} makes a grid "
            f"whose sums need {range_bits:.0f} bits, more than 64. Take a larger one."
        )
    return SecureGrid(clip_norm, step, bits)


def _check(config: tables.AggregationConfig) -> None:
    rule, privacy, protection = config.rule, config.privacy, config.protection
    if reason := _RULES.get(type(rule)):
        raise _refused("rule.name", rule.name, reason, "'mean'")
    if config.is_private and not (isinstance(privacy, Gaussian) and privacy.is_discrete):
        key = "privacy.distribution" if isinstance(privacy, Gaussian) else "privacy.mechanism"
        value = getattr(privacy, key.partition(".")[2])
        raise _refused(
            key, value, "its sums are not of integers", "'gaussian' with distribution 'discrete'"
        )
    if config.client_weighting != "uniform":
        raise _refused(
            "client_weighting",
            config.client_weighting,
            "a weight is capped by the cohort's median, which needs each claim",
            "'uniform'",
        )
    if getattr(protection, "zeroing", False):
        raise _refused("protection.zeroing", True, "it drops deltas by their values", "false")
    if not config.is_private and not isinstance(protection, tables.FixedClipping):
        raise _refused(
            "protection.clipping",
            protection.clipping,
            "sums need a bound that devices know and that follows no norms",
            "'fixed'",
        )
    if not isinstance(config.compression, tables.NoCompression):
        raise _refused(
            "compression.codec",
            config.compression.codec,
            "what is masked is uniform, and no code makes it smaller",
            "'none'",
        )
    if isinstance(config.row_correction, tables.TouchedRows):
        raise _refused("row_correction.kind", "touched", "it tells who typed which word", "'none'")


def _refused(key: str, value: object, reason: str, instead: str) -> ConfigError:
    return ConfigError(
        f"`aggregation.{key}` = {value!r} cannot be a secure sum: {reason}. Take {instead}."
    )
