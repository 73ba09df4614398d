"""The private parts of a run, opened once: its mechanism, its noise key and its ledger.

A new run gets a nonce and optimal coefficients. A resumed run gets the ones in its ledger and its
nonce file, so that it releases the same bits as a run without interruption.
"""

import dataclasses
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tff_keyboard.config import RunConfig
from tff_keyboard.config.resume_policy import numerics_config
from tff_keyboard.config.sections.learning_config import FedAvgM
from tff_keyboard.config.sections.privacy_config import MechanismConfig
from tff_keyboard.privacy import ledger_hook
from tff_keyboard.privacy.ledger import ledger, lineage, people
from tff_keyboard.privacy.ledger.ledger_header import CHECK_IN, LedgerHeader
from tff_keyboard.privacy.mechanisms import noise_key
from tff_keyboard.privacy.mechanisms.mechanism import Mechanism, mechanism_of
from tff_keyboard.privacy.mechanisms.noise_streams import NoiseOfRounds

# Header fields about the initial model and the vocabulary.
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

    mechanism: Mechanism  # with the coefficients from the run's start
    key: noise_key.NoiseKey | None  # None if the noise multiplier is 0
    header: LedgerHeader  # the ledger's header

    @property
    def cohort_key(self) -> bytes:
        """Salt of the cohorts; b"" without a secret."""
        return self.key.cohort_key if self.key else b""

    @property
    def build_noise(self) -> Callable[[int], NoiseOfRounds] | None:
        """Returns a function from a size to the noise of any round; None without noise."""
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
    general_sha256: str = "",
) -> RunPrivacy:
    """Starts or resumes the privacy of a run. Draws and stores the nonce of a new run.

    Args:
      config: The config of the run.
      ledger_path: The ledger. It exists if the run was started before.
      nonce_path: The file of the nonce.
      store_card: Card of the client store.
      client_ids: Ids of the store's clients; None if devices check in by themselves. Their ids are
        then unknown, and sampling amplifies nothing.
      initial_weights: The initial weights.
      selected_per_round: Clients drawn per round, with over-selection.
      general_sha256: Hash of the general store, from its card, if any.

    Raises:
      NoiseKeyError: If the nonce or the secret is missing, malformed or not that of the run.
      RunDirectoryError: If the ledger is damaged.
    """
    recorded: LedgerHeader | None = None
    rounds_released = 0
    if ledger_path.exists():
        recorded, rounds = ledger.read_ledger(ledger_path)
        rounds_released = len(rounds)
    mechanism = recorded.mechanism if recorded else _mechanism_of_run(config)
    key = None
    privacy = _privacy_of(config)
    if privacy.noise_multiplier:
        facts = _facts(config, mechanism, store_card["store_sha256"], initial_weights)
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
                f"The noise key differs from the key of {ledger_path}, so the same rounds would be "
                "released with a second noise. Use the secret, nonce, store, general store, "
                "initial model and version of tff-keyboard of the first start, or start a new run "
                "directory."
            )
    header = ledger_hook.ledger_header(
        config.aggregation,
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
    return RunPrivacy(mechanism=mechanism, key=key, header=header)


def _with_what_came_before(
    header: LedgerHeader,
    config: RunConfig,
    recorded: LedgerHeader | None,
    store_card: Mapping[str, Any],
    client_ids: Sequence[str] | None,
) -> LedgerHeader:
    """Returns `header` with its fields about the initial model and the vocabulary.

    A resumed run keeps its recorded fields, because the runs that led to its initial model may have
    continued or been deleted.
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
    """Returns all facts by which the sums of two runs can differ; see `noise_key`."""
    return {
        "config": numerics_config(config),
        "mechanism": dataclasses.asdict(mechanism),
        "store_sha256": store_sha256,
        "initial_weights": noise_key.weights_digest(initial_weights),
    }
