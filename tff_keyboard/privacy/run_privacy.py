"""What makes a run private, opened once: its mechanism, its noise key, its ledger.

A run that begins gets a nonce and optimal coefficients; a run that goes on gets what its ledger
and its nonce say, so that the rounds after a stop release the bits they would have released.
"""

import dataclasses
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tff_keyboard.config import RunConfig
from tff_keyboard.config.kept_keys import what_rounds_compute
from tff_keyboard.config.sections.learning_config import FedAvgM
from tff_keyboard.config.sections.privacy_config import MechanismConfig
from tff_keyboard.privacy import ledger_hook
from tff_keyboard.privacy.ledger import ledger, lineage, participation, people
from tff_keyboard.privacy.ledger.ledger_header import CHECK_IN, LedgerHeader
from tff_keyboard.privacy.mechanisms import noise_key
from tff_keyboard.privacy.mechanisms.mechanism import Mechanism, mechanism_of
from tff_keyboard.privacy.mechanisms.noise_streams import NoiseOfRounds

# Fields of the header about the initial model and the vocabulary.
_BEFORE = (
    "store_sha256",
    "initial_model",
    "ancestors",
    "vocabulary_sha256",
    "vocabulary_rho",
    "vocabulary_delta",
    "truecase_forms",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunPrivacy:
    """The parts of a private run."""

    mechanism: Mechanism  # mechanism with the coefficients the run began with
    key: noise_key.NoiseKey | None  # key of the noise; None where the noise multiplier is 0
    header: LedgerHeader  # header of the ledger
    # Positions of the people of other runs' last rounds, who wait at the beginning of this one, the
    # oldest round first; empty where no record of participation is kept
    earlier: Sequence[np.ndarray] = ()

    @property
    def cohort_key(self) -> bytes:
        """Salts the cohorts; b"" where nothing secret does."""
        return self.key.cohort_key if self.key else b""

    @property
    def build_noise(self) -> Callable[[int], NoiseOfRounds] | None:
        """Makes any round's noise from the size of a round's noise; None without noise."""
        return None if self.key is None else self.mechanism.keyed_noise(self.key.key)


def open_run_privacy(
    config: RunConfig,
    *,
    ledger_path: pathlib.Path,
    nonce_path: pathlib.Path,
    store_card: Mapping[str, Any],
    client_ids: Sequence[str] | None,
    initial_weights: Sequence[np.ndarray],
    selected_per_round: int,
    record_path: pathlib.Path | None = None,
    general_sha256: str = "",
) -> RunPrivacy:
    """Begins or goes on with the privacy of a run; draws and stores the nonce of a new one.

    `ledger_path` is there if the run was begun before; `record_path` is that of the record of
    participation beside the store, `general_sha256` of the card of the general store, if any.
    `client_ids` is None where devices come by themselves: nobody knows who they are, and no
    sampling is claimed.
    Raises `NoiseKeyError` if the nonce or the secret is missing, malformed or not that of the run;
    `RunDirectoryError` if the ledger is damaged; `ValueError` if the config claims a limit on
    participation that nothing enforces.
    """
    recorded: LedgerHeader | None = None
    rounds_released = 0
    if ledger_path.exists():
        recorded, rounds = ledger.read_ledger(ledger_path)
        rounds_released = len(rounds)
    mechanism = recorded.mechanism if recorded else _mechanism_of_run(config)
    key = None
    privacy = _privacy_of(config)
    earlier: list[np.ndarray] = []
    if record_path is not None and privacy.records_participation:
        assert client_ids is not None
        begun_as = None if privacy.noise_multiplier else ""  # runs without a key share one id
        earlier = participation.cohorts_before(
            record_path,
            recorded.key_id if recorded else begun_as,
            people.digests_of(client_ids, privacy.noise_secret),
            config.train.min_separation_rounds - 1,
            people.salt_id_of(privacy.noise_secret),
        )
    if privacy.noise_multiplier:
        facts = _facts(config, mechanism, store_card["store_sha256"], initial_weights)
        if earlier:
            facts["earlier"] = [cohort.tolist() for cohort in earlier]
        if general_sha256:
            facts["general_sha256"] = general_sha256
        key = noise_key.open_noise_key(
            nonce_path,
            facts,
            may_draw=rounds_released == 0,
            secret=privacy.noise_secret,
            fixed_nonce=privacy.fixed_nonce,
        )
        if recorded and recorded.key_id != key.key_id:
            raise noise_key.NoiseKeyError(
                f"The noise key is not the one {ledger_path} was begun with: the same rounds would "
                "be released under a second noise. Give the secret, the nonce, the store and its "
                "record of participation, the general store, the initial model and the version of "
                "tff-keyboard it began with, or start a new run directory."
            )
    header = ledger_hook.ledger_header(
        config.aggregation,
        rounds=config.train.rounds,
        population=len(client_ids or ()),
        clients_per_round=config.train.clients_per_round,
        selected_per_round=selected_per_round,
        min_separation_rounds=config.train.min_separation_rounds,
        mechanism=mechanism,
        key=key,
    )
    if client_ids is None:
        header = dataclasses.replace(header, sampling=CHECK_IN, uniform_sampling=False)
    header = _with_what_came_before(header, config, recorded, store_card, client_ids)
    return RunPrivacy(mechanism=mechanism, key=key, header=header, earlier=earlier)


def _with_what_came_before(
    header: LedgerHeader,
    config: RunConfig,
    recorded: LedgerHeader | None,
    store_card: Mapping[str, Any],
    client_ids: Sequence[str] | None,
) -> LedgerHeader:
    """`header` with its fields about the initial model and the vocabulary.

    A run that goes on keeps what it recorded: the runs behind its initial model may have gone on,
    too, or may be gone.
    """
    if recorded is not None:
        return dataclasses.replace(header, **{name: getattr(recorded, name) for name in _BEFORE})
    salts = {_privacy_of(config).noise_secret, ""} if client_ids is not None else ()
    ours = [people.salted(client_ids or (), secret) for secret in salts]
    chosen = store_card.get("vocabulary", {}).get("privacy") or {}
    return dataclasses.replace(
        header,
        store_sha256=store_card["store_sha256"],
        initial_model=config.model.initial_model,
        ancestors=lineage.ancestors(config.model.initial_model, ours=ours),
        vocabulary_sha256=store_card.get("vocabulary", {}).get("fingerprint", ""),
        vocabulary_rho=chosen.get("rho", 0.0),
        vocabulary_delta=chosen.get("delta_of_words", 0.0),
        truecase_forms=store_card.get("truecase", {}).get("forms", 0),
    )


def _privacy_of(config: RunConfig) -> MechanismConfig:
    privacy = config.aggregation.privacy
    assert isinstance(privacy, MechanismConfig)
    return privacy


def _mechanism_of_run(config: RunConfig) -> Mechanism:
    return mechanism_of(
        _privacy_of(config),
        rounds=config.train.rounds,
        min_separation_rounds=config.train.min_separation_rounds,
        momentum=config.server.momentum if isinstance(config.server, FedAvgM) else 0.0,
    )


def _facts(
    config: RunConfig,
    mechanism: Mechanism,
    store_sha256: str,
    initial_weights: Sequence[np.ndarray],
) -> dict:
    """Whatever the sums of two runs with one nonce could differ in: see `noise_key`."""
    return {
        "config": what_rounds_compute(config),
        "mechanism": mechanism.facts,
        "store_sha256": store_sha256,
        "initial_weights": noise_key.weights_digest(initial_weights),
    }
