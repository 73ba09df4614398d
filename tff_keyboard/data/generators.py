"""Random generators of many clients at a time, each as if it were seeded alone.

`numpy.random.default_rng([seed, round, client])` takes 20 us, nearly all of them in NumPy's
SeedSequence, which mixes the numbers 32 bits at a time. Here all clients are mixed at once. The
algorithm is M. O'Neill's seed_seq_fe (https://www.pcg-random.org/posts/developing-a-seed_seq-
alternative.html) with the constants of NumPy, which promises never to change this stream (NEP 19).
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence

_POOL = 4  # words that the seed is mixed into
_STATE = 8  # words that a PCG64 begins with
_XSHIFT = np.uint32(16)
_INIT_A, _MULT_A = 0x43B0D7E5, 0x931E8875
_INIT_B, _MULT_B = 0x8B51F9DD, 0x58F38DED
_MIX_LEFT, _MIX_RIGHT = np.uint32(0xCA01F9DD), np.uint32(0x4973F715)
_WORD = 1 << 32


def generators(
    before: Sequence[int], numbers: np.ndarray, after: Sequence[int] = ()
) -> Iterator[np.random.Generator]:
    """`default_rng([*before, number, *after])` of each number, 2 us each.

    Raises `ValueError` if `before` or `after` has a negative number, or `numbers`, [count]
    integers, one that is not in 0..2**32 - 1.
    """
    numbers = np.asarray(numbers, np.int64)
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < _WORD:
        raise ValueError("`numbers` must be in 0..2**32 - 1.")
    entropy = [*_words(before), numbers.astype(np.uint32), *_words(after)]
    for state in _states(entropy, numbers.size):
        seed: Any = _Mixed(state)  # NumPy's stub knows its own SeedSequence only
        yield np.random.Generator(np.random.PCG64(seed))


class _Mixed(ISeedSequence):
    """What a PCG64 asks of its seed, computed before."""

    def __init__(self, state: np.ndarray):
        self._state = state

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> np.ndarray:
        assert (n_words, dtype) == (_STATE // 2, np.uint64), "PCG64 alone is seeded by this"
        return self._state


def _words(numbers: Sequence[int]) -> Iterator[np.ndarray]:
    """Each number as words of 32 bits, the lowest first; at least one."""
    for number in numbers:
        if number < 0:
            raise ValueError(f"A seed must be >= 0, got {number}.")
        while True:
            yield np.array([number % _WORD], np.uint32)
            number //= _WORD
            if not number:
                break


class _Hash:
    """Hashes words; another way at each call."""

    def __init__(self, constant: int, multiplier: int):
        self._constant, self._multiplier = constant, multiplier

    def __call__(self, words: np.ndarray) -> np.ndarray:
        words = words ^ np.uint32(self._constant)
        self._constant = self._constant * self._multiplier % _WORD
        words = words * np.uint32(self._constant)
        return words ^ (words >> _XSHIFT)


def _states(entropy: list[np.ndarray], count: int) -> np.ndarray:
    """SeedSequence(entropy).generate_state(4, uint64) of `count` seeds at once: [count, 4].

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
