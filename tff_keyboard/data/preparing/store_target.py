"""Finds out what lies where a new store is to be: nothing, an equal store, or something else."""

import pathlib

from tff_keyboard.data.store.store_card import Card, Identity, read_card
from tff_keyboard.storage import errors, names

DATA_FILES = (names.CLIENTS, names.MESSAGE_LENGTHS, names.VOCABULARY, names.TRUECASE)
STORE_FILES = {*DATA_FILES, names.DATA_CARD}


def equal_store(out: pathlib.Path, identity: Identity, *, overwrite: bool) -> Card | None:
    """The card of an equal store at `out`, or None when it may be written.

    Raises `DataError` if something else is there.
    """
    try:
        found = {entry.name for entry in out.iterdir()} if out.exists() else set()
    except NotADirectoryError:
        raise errors.DataError(f"{out}: is a file. Name a folder for the store.") from None
    except OSError as error:
        raise errors.DataError(f"{out}: cannot be read: {error.strerror or error}.") from None
    if not found:
        return None
    if found - STORE_FILES:
        raise errors.DataError(
            f"{out}: the folder holds other files, so no store is written there. Name a new folder."
        )
    try:
        card: Card | None = read_card(out)
    except errors.DataError:
        card = None
    if card is not None and all(card.get(key) == value for key, value in identity.items()):
        return card
    if overwrite:
        return None
    if card is None:
        raise errors.DataError(
            f"{out}: holds a damaged or incomplete store. Give --overwrite to replace it."
        )
    differing = [
        key for key, value in identity["options"].items() if card["options"].get(key) != value
    ]
    what = f"other options ({', '.join(differing)})" if differing else "other input files"
    raise errors.DataError(
        f"{out}: holds a store made from {what}. Give --overwrite to replace it, or another folder."
    )
