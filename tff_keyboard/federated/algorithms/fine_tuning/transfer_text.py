"""The text that transfer learning predicts on: general, or drawn from the server's model.

Both are pure functions of (`train.seed`, round, the model at the start of the round), so that a
resumed run repeats them. Source: Popov et al. 2018, section 2.3, https://arxiv.org/abs/1712.07473.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from tff_keyboard.config import RunConfig
from tff_keyboard.config.sections.fine_tuning_config import Transfer
from tff_keyboard.data import batches
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.vocabulary import PAD
from tff_keyboard.models import NextWordModel
from tff_keyboard.models.generation import sample_texts

# Round number >= 1 and the server's model to batches [messages, time + 1] int32.
TransferText: TypeAlias = Callable[[int, NextWordModel], list[np.ndarray]]

# Takes the place of a client's index in seeds, so that no client shares the server's draws.
_SERVER = 2**32 - 1


def build_transfer_text(config: RunConfig, general_store: ClientStore | None) -> TransferText:
    """The source that `fine_tuning.server.text` names."""
    transfer = config.fine_tuning.server
    assert isinstance(transfer, Transfer)
    if transfer.text == "generated":
        return generated_text(config, transfer)
    if general_store is None:
        raise ValueError(
            "`fine_tuning.server.text` = 'general' needs the client store of "
            "`fine_tuning.general_store`, got None."
        )
    return general_text(config, transfer, general_store)


def general_text(config: RunConfig, transfer: Transfer, store: ClientStore) -> TransferText:
    """`transfer.messages` messages of the store's train population, anew every round.

    Drawn without replacement, whoever wrote them; all of them where there are no more.
    """
    messages = store.all_examples("train")

    def text(round_num: int, model: NextWordModel) -> list[np.ndarray]:
        del model
        return _batches(config, transfer, messages, round_num)

    return text


def generated_text(config: RunConfig, transfer: Transfer) -> TransferText:
    """Draws as many messages, word after word, from the model as it is before the round's training.

    Each is at most `data.max_length` words long.
    """

    def text(round_num: int, model: NextWordModel) -> list[np.ndarray]:
        seed = np.random.SeedSequence(_seed(config, round_num)).generate_state(1, np.uint64)
        rows = sample_texts(
            model, transfer.messages, config.data.max_length, int(seed[0]), allow_end=True
        )
        return _batches(config, transfer, [row[row != PAD] for row in rows], round_num)

    return text


def _batches(
    config: RunConfig, transfer: Transfer, messages: list[np.ndarray], round_num: int
) -> list[np.ndarray]:
    return batches.client_batches(
        messages,
        batch_size=transfer.batch_size,
        max_length=config.data.max_length,
        max_examples=transfer.messages,
        epochs=transfer.epochs,
        seed=_seed(config, round_num),
        long_messages="keep",  # what the model wrote was cut there, and has no end
    )


def _seed(config: RunConfig, round_num: int) -> tuple[int, int, int]:
    return config.train.seed, round_num, _SERVER
