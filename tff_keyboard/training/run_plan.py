"""The facts of a planned run that its ledger header will contain, read before the run exists."""

import pathlib
from typing import Any

from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.store.store_card import read_card
from tff_keyboard.privacy.ledger import lineage
from tff_keyboard.storage import names
from tff_keyboard.training.run_privacy import origin_of


def planned_origin(
    store: str,
    initial_model: str,
    *,
    secret: str = "",
    checks_in: bool = False,
    unchecked_parts: tuple[str, ...] = (),
    unknown_weights: str = "",
    secure_sums: bool = False,
) -> dict[str, Any]:
    """Returns the header fields about the vocabulary and earlier runs, as a run would record them.

    Without a store, the price of the vocabulary is not included, and every earlier run counts as a
    run on the same clients.

    Args:
      store: `data.store`; it may be missing.
      initial_model: `model.initial_model`; "" for random weights.
      secret: `aggregation.privacy.noise_secret`, which salts the digests of clients.
      checks_in: Whether devices check in, so that their ids are unknown.
      unchecked_parts: `own_part.unchecked` of the config.
      unknown_weights: `ModelOptions.unknown_weights` of the config.
      secure_sums: Whether devices mask their updates.

    Raises:
      DataError: If the store is damaged.
      RunDirectoryError: If the ledger of an earlier run is damaged, or the secret is missing.
    """
    if not has_store(store):
        return {
            "initial_model": initial_model,
            "ancestors": lineage.ancestors(initial_model, ours=(), unknown_weights=unknown_weights),
            "unchecked_parts": unchecked_parts,
            "secure_sums": secure_sums,
        }
    client_ids = None
    if initial_model and not checks_in:
        client_ids = ClientStore(store).client_ids("train")
    return origin_of(
        None,
        read_card(pathlib.Path(store)),
        initial_model,
        client_ids,
        secret,
        unchecked_parts=unchecked_parts,
        unknown_weights=unknown_weights,
        secure_sums=secure_sums,
    )


def train_clients(store: str) -> int | None:
    """Returns the number of train clients of `data.store`; None if it is not prepared yet.

    Raises `DataError` if the store is damaged.
    """
    if not has_store(store):
        return None
    return read_card(pathlib.Path(store))["populations"]["train"]["clients"]


def has_store(store: str) -> bool:
    """Checks if `data.store` names a prepared client store."""
    return bool(store) and (pathlib.Path(store) / names.DATA_CARD).exists()
