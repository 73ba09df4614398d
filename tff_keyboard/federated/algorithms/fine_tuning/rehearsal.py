"""Random rehearsal: general messages among a client's own, so that it does not forget them.

Every client that is asked gets messages of the general corpus, drawn by (seed, round, client), and
trains on them and its own in one shuffle. With portion p and m own messages it gets

    round(m p / (1 - p)),    so that a share p of what it trains on is general.

They are sent down with the model and counted in bytes. A client's weight, in tokens or messages,
counts both kinds: its delta is the result of both.

Source: Popov et al. 2018, section 2.2, https://arxiv.org/abs/1712.07473; the idea is that of Robins
1995, Connection Science 7(2).
"""

from collections.abc import Sequence

import numpy as np

from tff_keyboard.config.sections.fine_tuning_config import FineTuningConfig, RehearsalMethod
from tff_keyboard.data.store.client_store import ClientStore

_REHEARSE = 1_000_003  # keeps these draws apart from the others of a client's seed


class Rehearsal:
    """Draws general messages for clients, the share `portion` in (0, 1) of a client's messages.

    Raises `ValueError` if `portion` is out of range.
    """

    def __init__(self, store: ClientStore, portion: float):
        if not 0 < portion < 1:
            raise ValueError(f"`portion` must be in (0, 1), got {portion}.")
        self._portion = portion
        messages = store.all_examples("train")
        # One flat array: a list of a million small ones takes ten times the memory.
        self._words = np.concatenate(messages)
        self._ends = np.cumsum([len(message) for message in messages])
        self._bytes_per_id = 2 if len(store.vocabulary) <= 2**16 else 4

    @property
    def lengths(self) -> np.ndarray:
        """Words of each message of the corpus."""
        return np.diff(self._ends, prepend=0)

    def num_messages(self, num_own: int) -> int:
        """General messages that go with so many of a client's own.

        A client gets no message twice, so there are never more than the corpus has.
        """
        wanted = round(num_own * self._portion / (1 - self._portion))
        return min(wanted, len(self._ends))

    def messages(self, num_own: int, seed: Sequence[int]) -> list[np.ndarray]:
        """`[words]` int32 ids of each message for a client with `num_own` messages of its own.

        `seed` are numbers >= 0 that name run, round and client.
        """
        rng = np.random.default_rng([*seed, _REHEARSE])
        chosen = rng.choice(len(self._ends), size=self.num_messages(num_own), replace=False)
        starts = self._ends[chosen - 1] * (chosen > 0)
        ends = self._ends[chosen]
        return [self._words[start:end] for start, end in zip(starts, ends, strict=True)]

    def num_bytes(self, messages: Sequence[np.ndarray]) -> int:
        """Size of messages as they are sent: an id a word and one for the end, uncompressed."""
        return sum(len(message) + 1 for message in messages) * self._bytes_per_id


def build_rehearsal(config: FineTuningConfig, general: ClientStore | None) -> Rehearsal | None:
    """What `CohortInputs` mixes in where `fine_tuning.method` is rehearsal; None for the others."""
    if not isinstance(config.method, RehearsalMethod):
        return None
    if general is None:
        raise ValueError("Rehearsal needs the client store of `fine_tuning.general_store`.")
    return Rehearsal(general, config.method.portion)
