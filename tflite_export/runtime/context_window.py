"""Limits how much of a long text the model reads to the length it was trained on.

A recurrent state that went on for longer than any sequence of the training is one that the model
never learned to read. So only the last words are fed, at most the `training_length` of the
manifest, from the empty state and without BOS: as in training, where a long message goes on in a
further sequence (`tff_keyboard/data/batches.py`).
"""

from collections.abc import Sequence


def last_ids(ids: Sequence[int], training_length: int | None) -> list[int]:
    """The ids to feed, of BOS and the words before the cursor; all without a `training_length`.

    Begins at a multiple of half the length, >= 2 targets of a training sequence, so that the begin
    stays where it is for some words and the state behind the last one can be gone on from.

    >>> [last_ids(range(n), 4) for n in (4, 5, 6, 7)]
    [[0, 1, 2, 3], [2, 3, 4], [2, 3, 4, 5], [4, 5, 6]]
    """
    if training_length is None or len(ids) <= training_length:
        return list(ids)
    step = training_length // 2
    start = -(-(len(ids) - training_length) // step) * step
    return list(ids[start:])
