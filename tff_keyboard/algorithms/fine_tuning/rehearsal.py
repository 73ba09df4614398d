"""Random rehearsal: general messages among a client's own messages, against forgetting.

Every selected client gets messages of the general corpus, drawn by (seed, round, client). It trains
on them and on its own messages in one shuffle. With portion p and m own messages it gets

    round(m p / (1 - p)),    so that a share p of its training messages is general.

The server sends them with the model, and their bytes are counted. A client's weight, in tokens or
messages, counts both kinds, because its update is the result of both.

Source: Popov et al. 2018, section 2.2, https://arxiv.org/abs/1712.07473; the idea is from Robins
1995, Connection Science 7(2).
"""

from collections.abc import Sequence

import numpy as np

from tff_keyboard.data.store.client_store import ClientStore

_REHEARSE = 1_000_003  # separates these draws from other draws of a client's seed


class Rehearsal:
    """Draws general messages for clients, the share `portion` in (0, 1) of a client's messages.

    Raises:
      ValueError: `portion` is out of range.
    """

    def __init__(self, store: ClientStore, portion: float):
        if not 0 < portion < 1:
            raise ValueError(f"`portion` must be in (0, 1), got {portion}.")
        self._portion = portion
        messages = store.all_messages("train")
        # One flat array. A list of a million small arrays takes ten times the memory.
        self._words = np.concatenate(messages)
        self._ends = np.cumsum([len(message) for message in messages])
        self._bytes_per_id = 2 if len(store.vocabulary) <= 2**16 else 4

    @property
    def lengths(self) -> np.ndarray:
        """Returns the number of words of each message of the corpus."""
        return np.diff(self._ends, prepend=0)

    def num_messages(self, num_own: int) -> int:
        """Returns the number of general messages for a client with `num_own` messages.

        A client gets no message twice, so the size of the corpus is the upper limit.
        """
        num_general = round(num_own * self._portion / (1 - self._portion))
        return min(num_general, len(self._ends))

    def messages(self, num_own: int, seed: Sequence[int]) -> list[np.ndarray]:
        """Draws the messages for a client with `num_own` messages: int32 ids, [words] each.

        `seed` are numbers >= 0 that identify run, round and client.
        """
        rng = np.random.default_rng([*seed, _REHEARSE])
        indices = rng.choice(len(self._ends), size=self.num_messages(num_own), replace=False)
        starts = self._ends[indices - 1] * (indices > 0)
        ends = self._ends[indices]
        return [self._words[start:end] for start, end in zip(starts, ends, strict=True)]

    def num_bytes(self, messages: Sequence[np.ndarray]) -> int:
        """Returns the uncompressed size of messages: one id per word and one for the end."""
        return sum(len(message) + 1 for message in messages) * self._bytes_per_id
