"""The ledger header of a run, built by one function for runs and for plans.

A plan that builds its header here contains everything that the statement of the run contains:
selected clients, secrecy of the cohorts, simulated cohort, vocabulary and earlier runs.
"""

from collections.abc import Mapping
from typing import Any

from tff_keyboard.config.sections.aggregation_config import AggregationConfig
from tff_keyboard.parts.privacy_mechanism import MechanismConfig
from tff_keyboard.privacy.ledger.ledger_header import CHECK_IN, FIXED_SIZE, LedgerHeader
from tff_keyboard.privacy.mechanisms.mechanism import Mechanism
from tff_keyboard.privacy.mechanisms.noise_key import NoiseKey


def ledger_header(
    config: AggregationConfig,
    *,
    population: int,
    clients_per_round: int,
    selected_per_round: int,
    min_separation_rounds: int,
    mechanism: Mechanism,
    key: NoiseKey | None,
    checks_in: bool = False,
    origin: Mapping[str, Any] | None = None,
) -> LedgerHeader:
    """Builds the ledger header of a run from its config, its sampling and its key.

    Args:
      config: The table `[aggregation]`, with a mechanism of privacy.
      population: Number of clients that can be drawn; 0 if devices check in.
      clients_per_round: Report goal, the denominator of the mean.
      selected_per_round: Clients drawn per round, with over-selection.
      min_separation_rounds: `train.min_separation_rounds`.
      mechanism: The mechanism, with its coefficients.
      key: The noise key; None without noise.
      checks_in: Whether devices check in by themselves, so that sampling amplifies nothing.
      origin: Header fields about the initial model and the vocabulary, such as `ancestors` and
        `vocabulary_rho`.

    Raises:
      ValueError: If the config has no mechanism.
    """
    privacy = config.privacy
    if not isinstance(privacy, MechanismConfig):
        raise ValueError(
            "`aggregation.privacy.type` = 'none' makes no privacy claim, so there is no ledger."
        )
    return LedgerHeader(
        mechanism=mechanism,
        aggregator=config.rule.type,
        noise_multiplier=privacy.noise_multiplier,
        clip_norm=privacy.clip_norm,
        delta=privacy.delta,
        population=population,
        clients_per_round=clients_per_round,
        selected_per_round=selected_per_round,
        sampling=CHECK_IN if checks_in else FIXED_SIZE,
        uniform_sampling=min_separation_rounds == 1 and not checks_in,
        secret_cohorts=key is not None and bool(key.cohort_key),
        min_separation_rounds=min_separation_rounds,
        noise_source=key.source if key is not None else "",
        key_id=key.key_id if key is not None else "",
        noise_cohort_size=privacy.noise_cohort_size,
        **(origin or {}),
    )
