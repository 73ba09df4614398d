"""Limits the part of a long text that the model reads to the length it was trained on.

The model was not trained on states of longer sequences. Therefore it reads only the last words, at
most `training_length` of the manifest, from a zero state and without BOS. Training does the same:
it continues a long message in a further sequence (`tff_keyboard/data/batches.py`).
"""

from collections.abc import Sequence


def last_ids(ids: Sequence[int], training_length: int | None) -> list[int]:
    """Returns the ids to feed; all of them if `training_length` is None.

    The first id is at a multiple of half the length. So it stays the same for several words, and
    the state after the last word can be continued.

    Args:
      ids: BOS, then the words before the cursor.
      training_length: Targets of a training sequence, >= 2.

    >>> [last_ids(range(n), 4) for n in (4, 5, 6, 7)]
    [[0, 1, 2, 3], [2, 3, 4], [2, 3, 4, 5], [4, 5, 6]]
    """
    if training_length is None or len(ids) <= training_length:
        return list(ids)
    step = training_length // 2
    start = -(-(len(ids) - training_length) // step) * step
    return list(ids[start:])
