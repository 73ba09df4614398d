"""Stores that benchmarks write client by client, without text."""

import json
import pathlib

from tff_keyboard.data.store import store_card, store_writer
from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.storage import names


def finish(
    directory: pathlib.Path, writer: store_writer.StoreWriter, vocabulary: Vocabulary
) -> None:
    """Closes a store with the smallest card that `ClientStore` opens."""
    digests = writer.close()
    files = (names.VOCABULARY, names.CLIENTS, names.MESSAGE_LENGTHS)
    card = {
        "format": store_card.CARD_FORMAT,
        "file_bytes": {name: (directory / name).stat().st_size for name in files},
        "vocabulary": {"fingerprint": vocabulary.fingerprint},
        **digests,
    }
    (directory / names.DATA_CARD).write_text(json.dumps(card))
