"""Measures whether a backdoor works: how often its target word follows its trigger."""

import numpy as np

from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.vocabulary import BOS, PAD
from tff_keyboard.predictors.predictor import Predictor, mask_special

_BATCH = 64
_MAX_WORDS = 16  # before the trigger


def hit_rate(
    predictor: Predictor, store: ClientStore, population: str, *, trigger: int, target: int
) -> float:
    """Returns the share of users to whom `target` is suggested first after `trigger`, in [0, 1].

    Each user has typed the first half of their first message, and then the trigger.
    """
    contexts = []
    for person in store.client_ids(population):
        message = store.messages(population, person)[0]
        typed = message[: min(len(message) // 2, _MAX_WORDS)]
        contexts.append(np.array([BOS, *typed, trigger], np.int32))
    hits = 0
    for start in range(0, len(contexts), _BATCH):
        batch = contexts[start : start + _BATCH]
        ids = np.full([len(batch), max(map(len, batch))], PAD, np.int32)
        for row, context in zip(ids, batch, strict=True):
            row[: len(context)] = context
        last = np.cumsum([len(context) for context in batch]) - 1
        scores = mask_special(predictor.log_probabilities(ids)[last])
        hits += int(np.sum(scores.argmax(axis=-1) == target))
    return hits / len(contexts)
