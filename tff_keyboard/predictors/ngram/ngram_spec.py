"""Baselines by name: `unigram`, `ngram`, `ngram:3`, `ngram:1.25M`, `ngram:1.44MB`.

An order follows the colon, or a size: so many n-grams (k and M are thousands and millions),
or a file of so many bytes (kB and MB, of 1,000). Sizes are of a pruned model of order 5.
"""

import dataclasses
import decimal
import re
from collections.abc import Sequence

import numpy as np

from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.predictors.ngram import ngram_file, ngram_people
from tff_keyboard.predictors.ngram.kneser_ney import KneserNey
from tff_keyboard.predictors.ngram.ngram_predictor import NGramPredictor
from tff_keyboard.predictors.ngram.ngram_pruning import Pruner

DEFAULT_ORDER = 5

_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>k|M|kB|MB)")
_UNITS = {"k": 1000, "M": 10**6}
_FILLED = 0.995  # of a file's size: good enough
_MOST_TRIALS = 12


@dataclasses.dataclass(frozen=True)
class NGramSpec:
    """A baseline to train."""

    order: int = DEFAULT_ORDER
    num_ngrams: int | None = None  # prune to this many; None keeps all
    num_bytes: int | None = None  # prune and round to a file of at most this many; None does not


def parse(word: str) -> NGramSpec:
    """Reads a spec; a `ValueError` if it is none.

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
            f"'{word}' is no n-gram: behind 'ngram:' stands an order of 1 to 9 (ngram:3), a number "
            "of n-grams (ngram:1.25M, ngram:500k) or the bytes of a file (ngram:1.44MB)."
        )
    unit = match["unit"]
    amount = int(decimal.Decimal(match["number"]) * _UNITS[unit[0]])
    if unit.endswith("B"):
        return NGramSpec(num_bytes=amount)
    return NGramSpec(num_ngrams=amount)


def of_file(size: str) -> NGramSpec:
    """What fits into a file of so many bytes; a `ValueError` if `size` is no number of them.

    >>> of_file("1.44MB").num_bytes
    1440000
    """
    wanted = f"{size}: a size in bytes is wanted, such as 500kB or 1.44MB."
    try:
        spec = parse(f"ngram:{size}")
    except ValueError:
        raise ValueError(wanted) from None
    if spec.num_bytes is None:
        raise ValueError(wanted)
    return spec


def train(
    spec: NGramSpec,
    messages: Sequence[np.ndarray],
    vocabulary: Vocabulary,
    *,
    owners: Sequence[int] | None = None,
    least_people: int = 1,
) -> tuple[NGramPredictor, bytes | None]:
    """Counts, smooths, and makes small what people typed: ids [words] each, without BOS and EOS.

    A file lists only what `least_people` of the owners, numbers from 0 on, typed. The predictor
    comes with the content of its file, and is what a reader of it has; None for a spec without
    `num_bytes`. Raises `ValueError` if the vocabulary alone is larger than the size wanted.
    """
    model = KneserNey.train(messages, vocabulary_size=len(vocabulary), order=spec.order)
    if spec.num_bytes is not None:
        allowed = None
        if least_people > 1 and owners is not None:
            counts = ngram_people.people_of_ngrams(model, messages, owners)
            allowed = [count >= least_people for count in counts]
        pruner = Pruner(model, messages, allowed)
        data = encode_within(pruner, vocabulary, spec.num_bytes)
        return NGramPredictor(*ngram_file.decode(data)), data
    if spec.num_ngrams is not None:
        model = Pruner(model, messages).prune(spec.num_ngrams)
    return NGramPredictor(model, vocabulary), None


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
