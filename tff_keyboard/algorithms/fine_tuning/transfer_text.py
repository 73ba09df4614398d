"""Text for the predictions of transfer learning: general text, or text drawn from the model.

Both are pure functions of (`train.seed`, round, the model at the start of the round), so a resumed
run repeats them. Source: Popov et al. 2018, section 2.3, https://arxiv.org/abs/1712.07473.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from tff_keyboard.config.sections.fine_tuning_config import Transfer
from tff_keyboard.data import batches
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.vocabulary import PAD
from tff_keyboard.models import NextWordModel
from tff_keyboard.models.generation import sample_texts

# Round number >= 1 and the server's model to batches [messages, time + 1] int32.
TransferText: TypeAlias = Callable[[int, NextWordModel], list[np.ndarray]]

# Replaces a client's index in seeds, so that no client shares the server's draws.
_SERVER = 2**32 - 1


def build_transfer_text(
    transfer: Transfer, general_store: ClientStore | None, *, max_length: int, seed: int
) -> TransferText:
    """Returns the source of text for `fine_tuning.server.text`."""
    if transfer.text == "generated":
        return generated_text(transfer, max_length=max_length, seed=seed)
    if general_store is None:
        raise ValueError(
            "`fine_tuning.server.text` = 'general' needs the client store of "
            "`fine_tuning.general_store`, got None."
        )
    return general_text(transfer, general_store, max_length=max_length, seed=seed)


def general_text(
    transfer: Transfer, store: ClientStore, *, max_length: int, seed: int
) -> TransferText:
    """Draws `transfer.messages` messages of the store's train population, anew every round.

    They are drawn without replacement, from all clients together. If there are fewer messages, all
    of them are used.
    """
    messages = store.all_examples("train")

    def text(round_num: int, model: NextWordModel) -> list[np.ndarray]:
        del model
        return _batches(transfer, messages, max_length, (seed, round_num, _SERVER))

    return text


def generated_text(transfer: Transfer, *, max_length: int, seed: int) -> TransferText:
    """Draws as many messages, word after word, from the model at the start of the round.

    Each message has at most `max_length` words.
    """

    def text(round_num: int, model: NextWordModel) -> list[np.ndarray]:
        own_seed = seed, round_num, _SERVER
        drawn = np.random.SeedSequence(own_seed).generate_state(1, np.uint64)
        rows = sample_texts(model, transfer.messages, max_length, int(drawn[0]), allow_end=True)
        return _batches(transfer, [row[row != PAD] for row in rows], max_length, own_seed)

    return text


def _batches(
    transfer: Transfer, messages: list[np.ndarray], max_length: int, seed: tuple[int, int, int]
) -> list[np.ndarray]:
    return batches.client_batches(
        messages,
        batch_size=transfer.batch_size,
        max_length=max_length,
        max_examples=transfer.messages,
        epochs=transfer.epochs,
        seed=seed,
        long_messages="truncate",  # what the model wrote was cut there, and has no end
    )
