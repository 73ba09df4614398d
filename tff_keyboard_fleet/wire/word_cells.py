"""The vector of a device in a round that looks for new words: one number for each cell of a trie.

The plan has the prefixes that are still alive, all of one length. A device has a word "blorp". In a
round with the prefix "bl" and 2 letters a round, the word is in the cell "bl" + "or", and in the
round with the prefix "blor" it is in the cell "blor" + "p.", whose full stop ends the word:

    cells of a prefix, with A letters in the alphabet and n letters a round
      words that end after 0, 1, .., n - 1 further letters    1 + A + .. + A^(n - 1)
      words with n further letters, or more                   A^n

A device writes 1 into at most `max_cells` cells in which it has a word, and 0 into the others. So a
cell of the sum counts devices, not occurrences, and a device changes the sum by an L2 norm of at
most sqrt(max_cells). The counts are integers, so a secure sum is exact. The vector has room for
`slots` prefixes in every round; unused slots are 0.

The trie is that of Zhu et al. 2020 (TrieHH, https://arxiv.org/abs/1902.08534). There, votes for
single words are sampled, and the threshold alone protects; here, counts are bounded, and the server
can add noise to them.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a device reads plans without NumPy
    import numpy as np

STEP = 1.0  # of a secure sum: counts are whole numbers
BITS = 32
END = "."  # ends a word in the text of a cell; no alphabet has it
MARKS = "'-"  # characters of an alphabet that are not letters


def is_alphabet(alphabet: str) -> bool:
    """Returns whether these are different letters, in lower or upper case, or marks within words.

    >>> is_alphabet("'-abc"), is_alphabet("ab1"), is_alphabet("aa")
    (True, False, False)
    """
    letters = set(alphabet)
    return len(letters) == len(alphabet) > 0 and all(x.isalpha() or x in MARKS for x in letters)


def cells_of_prefix(alphabet_size: int, letters: int) -> int:
    """Returns the number of cells of a prefix.

    >>> cells_of_prefix(3, 2)  # the end, 3 letters and the end, 9 pairs of letters
    13
    """
    return sum(alphabet_size**length for length in range(letters + 1))


def clip_norm(max_cells: int) -> float:
    """Returns a bound on the L2 norm of a device's vector: a little more than sqrt(max_cells)."""
    return math.sqrt(max_cells) * (1 + 1e-9)


def texts_of_prefix(prefix: str, alphabet: str, letters: int) -> Iterator[str]:
    """Yields the text of each cell of a prefix, in the order of the vector.

    >>> list(texts_of_prefix("bl", "or", 1))
    ['bl.', 'blo', 'blr']
    """
    for length in range(letters + 1):
        for further in itertools.product(alphabet, repeat=length):
            yield prefix + "".join(further) + (END if length < letters else "")


def cell_of(word: str, prefixes: Mapping[str, int], alphabet: str, letters: int) -> int | None:
    """Returns the position of a word in the vector; None if it has no prefix of the plan.

    Args:
      word: A word of letters of the alphabet.
      prefixes: Each prefix and its slot. All have the same length.
      alphabet: The letters.
      letters: Number of letters of a round.
    """
    length = len(next(iter(prefixes)))
    slot = prefixes.get(word[:length]) if len(word) >= length else None
    if slot is None:
        return None
    size = len(alphabet)
    further = word[length : length + letters]
    position = sum(size**shorter for shorter in range(len(further)))
    for power, letter in enumerate(reversed(further)):
        position += alphabet.index(letter) * size**power
    return slot * cells_of_prefix(size, letters) + position


def to_vector(
    words: Iterable[str],
    prefixes: Sequence[str],
    alphabet: str,
    letters: int,
    *,
    size: int,
    max_cells: int,
) -> "np.ndarray":
    """Returns the vector of a device, [size] float32 of zeros and ones.

    Args:
      words: The words of the device, the most important ones first. Those after the first
        `max_cells` cells do not count.
      prefixes: The prefixes of the plan.
      alphabet: Its letters, which include those of the words.
      letters: Number of letters of a round.
      size: Number of cells of all slots.
      max_cells: Maximum number of ones.
    """
    import numpy as np

    slots = {prefix: slot for slot, prefix in enumerate(prefixes)}
    cells: set[int] = set()
    for word in words:
        cell = cell_of(word, slots, alphabet, letters)
        if cell is not None and len(cells) < max_cells:
            cells.add(cell)
    vector = np.zeros(size, np.float32)
    vector[sorted(cells)] = 1.0
    return vector
