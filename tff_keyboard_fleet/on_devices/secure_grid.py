"""Decides which aggregations can be computed as a secure sum of integers, and on which grid.

A server that only sees sums cannot look at an update. Aggregations that weight, bound, drop or sort
updates by their values are rejected here, with the reason. All other steps are done by the device:
it clips to a fixed norm, rounds to the grid, and does not send an update that is not finite. The
server cannot check these steps.
"""

import dataclasses
import math

from tff_keyboard.config.sections import aggregation_config as tables
from tff_keyboard.parts.privacy_mechanism import MechanismConfig
from tff_keyboard.privacy.mechanisms import sum_grid
from tff_keyboard.storage.errors import ConfigError
from tff_keyboard_fleet.wire.plan import SUMS_BITS


@dataclasses.dataclass(frozen=True)
class SecureGrid:
    """The steps of a device before masking, and the size of the sum.

    Attributes:
      clip_norm: L2 bound on the update, in weight units.
      step: Weight units of one integer; updates are rounded towards zero.
      bits: 32 or 64, such that no sum of the cohort's integers wraps around modulo 2^bits.
    """

    clip_norm: float
    step: float
    bits: int


def secure_grid(config: tables.AggregationConfig, *, clients_per_round: int) -> SecureGrid:
    """Returns the grid for an aggregation of at most `clients_per_round` clients.

    Raises:
      ConfigError: If the aggregation is not a sum of clipped updates of equal weight, or needs
        individual updates.
    """
    _check(config)
    noise_multiplier, is_discrete = 0.0, False
    if isinstance(config.privacy, MechanismConfig):
        clip_norm, is_discrete = config.privacy.clip_norm, config.privacy.is_discrete
        noise_multiplier = config.privacy.noise_multiplier
    else:
        assert isinstance(config.protection, tables.FixedClipping)
        clip_norm = config.protection.clip_norm
    step = sum_grid.sum_step(
        clip_norm=clip_norm, noise_multiplier=noise_multiplier, is_discrete=is_discrete
    )
    range_bits = math.log2(2 * clients_per_round * (clip_norm / step + 1))
    bits = next((bits for bits in SUMS_BITS if range_bits < bits), None)
    if bits is None:
        raise ConfigError(
            f"`aggregation.privacy.noise_multiplier` = {noise_multiplier:g} needs a grid whose "
            f"sums have {range_bits:.0f} bits, more than 64. Use a larger one."
        )
    return SecureGrid(clip_norm, step, bits)


def _check(config: tables.AggregationConfig) -> None:
    """Raises `ConfigError` if an option needs more than the sum of updates with equal weights."""
    rule, privacy, protection = config.rule, config.privacy, config.protection
    if reason := rule.secure_sum_problem:
        raise _refusal("rule.type", rule.type, reason, "'mean'")
    if isinstance(privacy, MechanismConfig) and privacy.is_adaptive:
        raise _refusal(
            "privacy.type",
            privacy.type,
            "its clip norm follows the number of unclipped updates, and devices need a fixed bound",
            "'tree' or 'blt'",
        )
    if isinstance(privacy, MechanismConfig) and not privacy.noise_multiplier:
        raise _refusal(
            "privacy.noise_multiplier",
            privacy.noise_multiplier,
            "there would be no noise",
            "a value above 0, or privacy type 'none' with protection type 'fixed'",
        )
    if config.client_weighting != "uniform":
        raise _refusal(
            "client_weighting",
            config.client_weighting,
            "weights are capped by the cohort's median, which needs the claim of each client",
            "'uniform'",
        )
    if getattr(protection, "zeroing", False):
        raise _refusal("protection.zeroing", True, "it drops updates by their values", "false")
    if not config.is_private and not isinstance(protection, tables.FixedClipping):
        raise _refusal(
            "protection.type",
            protection.type,
            "sums need a fixed bound that devices know",
            "'fixed'",
        )
    if not isinstance(config.compression, tables.NoCompression):
        raise _refusal(
            "compression.type",
            config.compression.type,
            "masked uploads are uniform, so no codec can compress them",
            "'none'",
        )
    if isinstance(config.row_correction, tables.FedSubAvgConfig):
        raise _refusal(
            "row_correction.type", "fedsubavg", "it reveals which client typed which word", "'none'"
        )


def _refusal(key: str, value: object, reason: str, instead: str) -> ConfigError:
    return ConfigError(
        f"`aggregation.{key}` = {value!r} cannot be used with secure sums: {reason}. Use {instead}."
    )
