"""Baselines by name: `unigram`, `ngram`, `ngram:3`, `ngram:1.25M`, `ngram:1.44MB`.

The value after the colon is an order, a number of n-grams (k and M are thousands and millions), or
a file size in bytes (kB and MB are powers of 1,000). Sizes are those of a pruned model of order 5.
"""

import dataclasses
import decimal
import re
from collections.abc import Sequence

import numpy as np

from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.predictors.ngram import ngram_file
from tff_keyboard.predictors.ngram.kneser_ney import KneserNey
from tff_keyboard.predictors.ngram.ngram_predictor import NGramPredictor
from tff_keyboard.predictors.ngram.ngram_pruning import Pruner, clients_of_ngrams

DEFAULT_ORDER = 5

_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>k|M|kB|MB)")
_UNITS = {"k": 1000, "M": 10**6}
_FILLED = 0.995  # share of the requested file size that is close enough
_MAX_TRIALS = 12


@dataclasses.dataclass(frozen=True)
class NGramSpec:
    """A baseline to train."""

    order: int = DEFAULT_ORDER
    num_ngrams: int | None = None  # number of n-grams after pruning; None keeps all
    num_bytes: int | None = None  # maximum size of a pruned and rounded file; None writes no file


def parse(word: str) -> NGramSpec:
    """Parses a spec. Raises `ValueError` if it is invalid.

    >>> parse("ngram:3"), parse("ngram:1.25M").num_ngrams, parse("ngram:500kB").num_bytes
    (NGramSpec(order=3, num_ngrams=None, num_bytes=None), 1250000, 500000)
    """
    if word == "unigram":
        return NGramSpec(order=1)
    if word == "ngram":
        return NGramSpec()
    size = word.removeprefix("ngram:")
    if re.fullmatch("[1-9]", size):
        return NGramSpec(order=int(size))
    match = _SIZE.fullmatch(size)
    if match is None or size == word:
        raise ValueError(
            f"'{word}' is not an n-gram. After 'ngram:', write an order from 1 to 9 (ngram:3), a "
            "number of n-grams (ngram:1.25M, ngram:500k) or a file size (ngram:1.44MB)."
        )
    unit = match["unit"]
    amount = int(decimal.Decimal(match["number"]) * _UNITS[unit[0]])
    if unit.endswith("B"):
        return NGramSpec(num_bytes=amount)
    return NGramSpec(num_ngrams=amount)


def of_file(size: str) -> NGramSpec:
    """Returns the spec of a file with a maximum size. Raises `ValueError` if `size` is invalid.

    >>> of_file("1.44MB").num_bytes
    1440000
    """
    rule = f"{size}: must be a size with its unit, such as 500kB or 1.44MB."
    try:
        spec = parse(f"ngram:{size}")
    except ValueError:
        raise ValueError(rule) from None
    if spec.num_bytes is None:
        raise ValueError(rule)
    return spec


def train(
    spec: NGramSpec,
    messages: Sequence[np.ndarray],
    vocabulary: Vocabulary,
    *,
    owners: Sequence[int] | None = None,
    min_clients: int = 1,
) -> tuple[NGramPredictor, bytes | None]:
    """Trains a baseline: counts, smooths, prunes and rounds the n-grams of messages.

    Args:
      spec: The baseline.
      messages: Ids [words] each, without BOS and EOS.
      vocabulary: The vocabulary.
      owners: The user of each message, numbers from 0 on.
      min_clients: Minimum number of users of each n-gram in a file.

    Returns:
      The predictor, and the content of its file. The predictor is then read back from the file. The
      content is None for a spec without `num_bytes`.

    Raises:
      ValueError: If the vocabulary alone is larger than the requested size.
    """
    model = KneserNey.train(messages, vocabulary_size=len(vocabulary), order=spec.order)
    if spec.num_bytes is not None:
        allowed = None
        if min_clients > 1 and owners is not None:
            counts = clients_of_ngrams(model, messages, owners)
            allowed = [count >= min_clients for count in counts]
        pruner = Pruner(model, messages, allowed)
        data = encode_within(pruner, vocabulary, spec.num_bytes)
        return NGramPredictor(*ngram_file.decode(data)), data
    if spec.num_ngrams is not None:
        model = Pruner(model, messages).prune(spec.num_ngrams)
    return NGramPredictor(model, vocabulary), None


def encode_within(pruner: Pruner, vocabulary: Vocabulary, budget_bytes: int) -> bytes:
    """Prunes until the file has at most `budget_bytes` bytes.

    The number of bytes grows almost linearly with the number of n-grams, so each trial interpolates
    between the best known sizes above and below the budget. The file contains the whole model if
    that fits. Otherwise it has at least 99.5 % of the budget, unless no trial came this close.
    Raises `ValueError` if even the single words do not fit.
    """
    best = ngram_file.encode(pruner.prune(pruner.min_ngrams), vocabulary)
    if len(best) > budget_bytes:
        raise ValueError(
            f"{budget_bytes:,} bytes are too few: the vocabulary and its unigrams need "
            f"{len(best):,}."
        )
    low, high = (pruner.min_ngrams, len(best)), (pruner.max_ngrams, 0)
    for _ in range(_MAX_TRIALS):
        if len(best) >= _FILLED * budget_bytes or high[0] - low[0] <= 1:
            break
        if high[1] == 0:  # the first guess, somewhat above 2 bytes per n-gram
            size = low[0] + (budget_bytes - low[1]) // 2
        else:
            size = low[0] + (high[0] - low[0]) * (budget_bytes - low[1]) // (high[1] - low[1])
            size -= (high[0] - low[0]) // 1000
        size = min(max(size, low[0] + 1), high[0] if high[1] == 0 else high[0] - 1)
        data = ngram_file.encode(pruner.prune(size), vocabulary)
        if len(data) <= budget_bytes:
            best, low = data, (size, len(data))
            if size == pruner.max_ngrams:
                break
        else:
            high = (size, len(data))
    return best
