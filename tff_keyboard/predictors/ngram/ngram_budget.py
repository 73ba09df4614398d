"""The largest n-gram that fits into a file of a given size."""

from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.predictors.ngram import ngram_file
from tff_keyboard.predictors.ngram.ngram_pruning import Pruner

_FILLED = 0.995  # of the budget: good enough
_MOST_TRIALS = 12


def encode_within(pruner: Pruner, vocabulary: Vocabulary, budget_bytes: int) -> bytes:
    """Prunes until the file fits into so many bytes.

    Bytes grow almost linearly with n-grams, so each trial is aimed by the line through the best
    sizes known above and below the budget. The file has the whole model where that fits, else at
    least 99.5 % of the budget unless no trial came as near. Raises `ValueError` if not even the
    single words fit.
    """
    best = ngram_file.encode(pruner.prune(pruner.fewest), vocabulary)
    if len(best) > budget_bytes:
        raise ValueError(
            f"{budget_bytes:,} bytes are too few: the vocabulary and its unigrams alone take "
            f"{len(best):,}."
        )
    low, high = (pruner.fewest, len(best)), (pruner.most, 0)
    for _ in range(_MOST_TRIALS):
        if len(best) >= _FILLED * budget_bytes or high[0] - low[0] <= 1:
            break
        if high[1] == 0:  # a first guess, somewhat above 2 bytes an n-gram
            size = low[0] + (budget_bytes - low[1]) // 2
        else:
            size = low[0] + (high[0] - low[0]) * (budget_bytes - low[1]) // (high[1] - low[1])
            size -= (high[0] - low[0]) // 1000
        size = min(max(size, low[0] + 1), high[0] if high[1] == 0 else high[0] - 1)
        data = ngram_file.encode(pruner.prune(size), vocabulary)
        if len(data) <= budget_bytes:
            best, low = data, (size, len(data))
            if size == pruner.most:
                break
        else:
            high = (size, len(data))
    return best
