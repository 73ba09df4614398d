"""Random generators of many clients at once, each identical to one seeded alone.

`numpy.random.default_rng([seed, round, client])` takes 20 us, almost all of it in NumPy's
SeedSequence, which mixes the numbers 32 bits at a time. This module mixes the seeds of all clients
at once. The algorithm is M. O'Neill's seed_seq_fe
(https://www.pcg-random.org/posts/developing-a-seed_seq-alternative.html) with the constants of
NumPy, which guarantees never to change this stream (NEP 19).
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence

_POOL = 4  # number of words that the seed is mixed into
_STATE = 8  # number of words in the initial state of a PCG64
_XSHIFT = np.uint32(16)
_INIT_A, _MULT_A = 0x43B0D7E5, 0x931E8875
_INIT_B, _MULT_B = 0x8B51F9DD, 0x58F38DED
_MIX_LEFT, _MIX_RIGHT = np.uint32(0xCA01F9DD), np.uint32(0x4973F715)
_WORD = 1 << 32


def generators(
    before: Sequence[int], numbers: np.ndarray, after: Sequence[int] = ()
) -> Iterator[np.random.Generator]:
    """Yields `default_rng([*before, number, *after])` for each number, in 2 us each.

    Args:
      before: Numbers >= 0.
      numbers: [count] integers in 0..2**32 - 1.
      after: Numbers >= 0.

    Raises:
      ValueError: If a number is out of range.
    """
    numbers = np.asarray(numbers, np.int64)
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < _WORD:
        raise ValueError("`numbers` must be in 0..2**32 - 1.")
    entropy = [*_words(before), numbers.astype(np.uint32), *_words(after)]
    for state in _states(entropy, numbers.size):
        seed: Any = _Mixed(state)  # NumPy's stub only allows its own SeedSequence
        yield np.random.Generator(np.random.PCG64(seed))


class _Mixed(ISeedSequence):
    """The seed interface of PCG64 for a state that is already computed."""

    def __init__(self, state: np.ndarray):
        self._state = state

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> np.ndarray:
        assert (n_words, dtype) == (_STATE // 2, np.uint64), "PCG64 alone is seeded by this"
        return self._state


def _words(numbers: Sequence[int]) -> Iterator[np.ndarray]:
    """Yields each number as 32-bit words, lowest first, at least one per number."""
    for number in numbers:
        if number < 0:
            raise ValueError(f"A seed must be >= 0, got {number}.")
        while True:
            yield np.array([number % _WORD], np.uint32)
            number //= _WORD
            if not number:
                break


class _Hash:
    """Hashes words, with a different constant at each call."""

    def __init__(self, constant: int, multiplier: int):
        self._constant, self._multiplier = constant, multiplier

    def __call__(self, words: np.ndarray) -> np.ndarray:
        words = words ^ np.uint32(self._constant)
        self._constant = self._constant * self._multiplier % _WORD
        words = words * np.uint32(self._constant)
        return words ^ (words >> _XSHIFT)


def _states(entropy: list[np.ndarray], count: int) -> np.ndarray:
    """Computes SeedSequence(entropy).generate_state(4, uint64) of `count` seeds: [count, 4].

    Each word of `entropy` is [count] or [1] uint32.
    """
    hashed = _Hash(_INIT_A, _MULT_A)
    zero = np.zeros([1], np.uint32)
    first = [*entropy, *[zero] * _POOL][:_POOL]
    pool = [hashed(words) for words in first]
    for source in range(_POOL):
        for target in range(_POOL):
            if source != target:
                pool[target] = _mix(pool[target], hashed(pool[source]))
    for words in entropy[_POOL:]:
        for target in range(_POOL):
            pool[target] = _mix(pool[target], hashed(words))
    hashed = _Hash(_INIT_B, _MULT_B)
    columns = [np.broadcast_to(hashed(pool[i % _POOL]), [count]) for i in range(_STATE)]
    return np.stack(columns, axis=1).astype("<u4").view("<u8").astype(np.uint64)


def _mix(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    mixed = _MIX_LEFT * left - _MIX_RIGHT * right
    return mixed ^ (mixed >> _XSHIFT)
