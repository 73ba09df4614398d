"""The private parts of a run, opened once: its mechanism, its noise key and its ledger.

A new run gets a nonce and optimal coefficients. A resumed run gets the ones in its ledger and its
nonce file, so that it releases the same bits as a run without interruption.
"""

import dataclasses
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tff_keyboard.config.sections.aggregation_config import AggregationConfig
from tff_keyboard.config.sections.train_config import TrainConfig
from tff_keyboard.parts import own_part
from tff_keyboard.parts.privacy_mechanism import MechanismConfig
from tff_keyboard.privacy.ledger import client_digests, ledger, lineage
from tff_keyboard.privacy.ledger.ledger_header import LedgerHeader
from tff_keyboard.privacy.ledger.run_header import ledger_header
from tff_keyboard.privacy.mechanisms import noise_key
from tff_keyboard.privacy.mechanisms.mechanism import Mechanism
from tff_keyboard.privacy.mechanisms.noise_streams import NoiseOfRounds

# Header fields about the run, its initial model and its vocabulary.
_BEFORE = (
    "run_id",
    "store_sha256",
    "initial_model",
    "ancestors",
    "vocabulary_sha256",
    "vocabulary_choice",
    "vocabulary_rho",
    "vocabulary_delta",
    "truecase_forms",
    "unchecked_parts",
    "secure_sums",
    "changes_client_work",
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
    aggregation: AggregationConfig,
    *,
    train: TrainConfig,
    momentum: float,
    initial_model: str,
    config_facts: Mapping[str, Any],
    ledger_path: pathlib.Path,
    nonce_path: pathlib.Path,
    store_card: Mapping[str, Any],
    client_ids: Sequence[str] | None,
    initial_weights: Sequence[np.ndarray],
    selected_per_round: int,
    general_sha256: str = "",
    run_id: str = "",
    unchecked_parts: tuple[str, ...] = (),
    unknown_weights: str = "",
    secure_sums: bool = False,
    changes_client_work: bool = False,
) -> RunPrivacy:
    """Starts or resumes the privacy of a run. Draws and stores the nonce of a new run.

    Args:
      aggregation: The table `[aggregation]`, with a mechanism of privacy.
      train: The table `[train]`.
      momentum: Momentum of the server's optimizer, for correlated noise.
      initial_model: `model.initial_model`; "" for random weights.
      config_facts: `resume_policy.numerics_config` of the config, and the sources of its own parts.
      ledger_path: The ledger. It exists if the run was started before.
      nonce_path: The file of the nonce.
      store_card: Card of the client store.
      client_ids: Ids of the store's clients; None if devices check in by themselves. Their ids are
        then unknown, and sampling amplifies nothing.
      initial_weights: The initial weights.
      selected_per_round: Clients drawn per round, with over-selection.
      general_sha256: Hash of the general store, from its card, if any.
      run_id: The random id of the run (`origin.json`).
      unchecked_parts: `own_part.unchecked` of the config.
      unknown_weights: `ModelOptions.unknown_weights` of the config.
      secure_sums: Whether devices mask their updates.
      changes_client_work: See `origin.Origin`.

    Raises:
      NoiseKeyError: If the nonce or the secret is missing, malformed or of another run.
      RunDirectoryError: If the ledger is damaged.
    """
    recorded: LedgerHeader | None = None
    rounds_released = 0
    if ledger_path.exists():
        recorded, rounds = ledger.read_ledger(ledger_path)
        rounds_released = len(rounds)
    else:
        ledger.check_ledger_is_complete(ledger_path, 0)  # no results may be there without a ledger
    privacy = aggregation.privacy
    assert isinstance(privacy, MechanismConfig)
    if recorded:
        mechanism = recorded.mechanism
    else:
        mechanism = privacy.mechanism(
            rounds=train.rounds,
            min_separation_rounds=train.min_separation_rounds,
            momentum=momentum,
        )
    key = None
    if privacy.noise_multiplier:
        # All facts by which the sums of two runs can differ; see `noise_key`.
        facts: dict[str, Any] = {
            "config": config_facts,
            "mechanism": dataclasses.asdict(mechanism),
            "store_sha256": store_card["store_sha256"],
            "initial_weights": noise_key.weights_digest(initial_weights),
        }
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
    header = ledger_header(
        aggregation,
        population=len(client_ids or ()),
        clients_per_round=train.clients_per_round,
        selected_per_round=selected_per_round,
        min_separation_rounds=train.min_separation_rounds,
        mechanism=mechanism,
        key=key,
        checks_in=client_ids is None,
        origin=origin_of(
            recorded,
            store_card,
            initial_model,
            client_ids,
            privacy.noise_secret,
            run_id=run_id,
            unchecked_parts=unchecked_parts,
            unknown_weights=unknown_weights,
            secure_sums=secure_sums,
            changes_client_work=changes_client_work,
        ),
    )
    return RunPrivacy(mechanism=mechanism, key=key, header=header)


def origin_of(
    recorded: LedgerHeader | None,
    store_card: Mapping[str, Any],
    initial_model: str,
    client_ids: Sequence[str] | None,
    secret: str,
    *,
    run_id: str = "",
    unchecked_parts: tuple[str, ...] = (),
    unknown_weights: str = "",
    secure_sums: bool = False,
    changes_client_work: bool = False,
) -> dict[str, Any]:
    """Returns the header's fields about the run, its initial model and its vocabulary.

    A resumed run keeps its recorded fields, because the runs that led to its initial model may have
    continued or been deleted.
    """
    if recorded is not None:
        return {name: getattr(recorded, name) for name in _BEFORE}
    salts = {secret, ""} if client_ids is not None else ()
    ours = [client_digests.salted(client_ids or (), salt) for salt in salts]
    vocabulary = store_card.get("vocabulary", {})
    choice = vocabulary.get("privacy") or {}
    return {
        "run_id": run_id,
        "initial_model": initial_model,
        "ancestors": lineage.ancestors(
            initial_model,
            ours=ours,
            store_sha256=store_card["store_sha256"],
            unknown_weights=unknown_weights,
        ),
        "vocabulary_sha256": vocabulary.get("fingerprint", ""),
        "vocabulary_choice": choice.get("choice_id", ""),
        "vocabulary_rho": choice.get("rho", 0.0),
        "vocabulary_delta": choice.get("delta_of_words", 0.0),
        "truecase_forms": store_card.get("truecase", {}).get("forms", 0),
        "unchecked_parts": tuple(
            dict.fromkeys([*unchecked_parts, *own_part.unchecked_of_store(store_card)])
        ),
        "secure_sums": secure_sums,
        "changes_client_work": changes_client_work,
    }
