"""The sums that a device sends in a round that evaluates models, as one vector.

A device counts the newest messages that it has not trained on, up to `max_words` targets (words and
ends of messages). The vector has the sums of `evaluation/metrics/metric_table.py`, each divided by
a bound and cut at 1:

    of the text     tokens, eos_tokens, oov_tokens, characters
    of each model   nll, hits_at_1, hits_at_3, typed_free
    of each model with the user's own words, if the plan has them: the same, and oov_hits_at_1 and
                    oov_hits_at_3

So every number is in [0, 1], and a device changes the sum over devices by an L2 norm of at most
sqrt(size), however much its user typed. All devices have the same weight.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a device reads plans without NumPy
    import numpy as np

OF_TEXT = ("tokens", "eos_tokens", "oov_tokens", "characters")
OF_MODEL = ("nll", "hits_at_1", "hits_at_3", "typed_free")
OF_OWN_WORDS = (*OF_MODEL, "oov_hits_at_1", "oov_hits_at_3")

# Bounds on the mean of a sum over the targets of a device. Few words have more characters, and a
# model that gives all words of a table of 65,536 the same probability has 11 nats.
_MOST_EACH = {"nll": 16.0, "characters": 16.0, "typed_free": 16.0}

STEP = 2.0**-30  # of a secure sum. If `max_words` is a power of two, counts are whole steps
BITS = 64

Columns = Sequence[tuple[int, bool, str]]


def columns(num_models: int, own_words: bool) -> list[tuple[int, bool, str]]:
    """Returns the meaning of each number of the vector: `(model, with own words, sum)`.

    Sums of the text have the model -1.

    >>> columns(1, False)[3:6]
    [(-1, False, 'characters'), (0, False, 'nll'), (0, False, 'hits_at_1')]
    """
    names = [(-1, False, name) for name in OF_TEXT]
    for model in range(num_models):
        names += [(model, False, name) for name in OF_MODEL]
        if own_words:
            names += [(model, True, name) for name in OF_OWN_WORDS]
    return names


def bounds(names: Columns, max_words: int) -> "np.ndarray":
    """Returns the bound of each number before it is divided, [size] float64."""
    import numpy as np

    return np.array([max_words * _MOST_EACH.get(name, 1.0) for _, _, name in names])


def clip_norm(size: int) -> float:
    """Returns a bound on the L2 norm of a device's vector: a little more than sqrt(size)."""
    return math.sqrt(size) * (1 + 1e-9)


def to_vector(
    text: Mapping[str, float],
    models: Sequence[Sequence[Mapping[str, float]]],
    max_words: int,
) -> "np.ndarray":
    """Returns the vector of a device, [size] float64 in [0, 1].

    Args:
      text: The sums of the text.
      models: For each model its sums without own words, and with them if the plan has them.
      max_words: `Evaluation.max_words` of the plan.
    """
    import numpy as np

    names = columns(len(models), any(len(model) > 1 for model in models))
    values = [
        float(text[name] if model < 0 else models[model][has_own][name])
        for model, has_own, name in names
    ]
    return np.clip(np.array(values) / bounds(names, max_words), 0.0, 1.0)


def from_vectors(
    vectors: "np.ndarray", num_models: int, own_words: bool, max_words: int
) -> "list[list[dict[str, np.ndarray]]]":
    """Returns the sums of groups of devices, by name: [models][without, with own words].

    Sums with noise may contradict each other; they are moved to the nearest possible values, which
    needs no further access to the text.

    Args:
      vectors: Sums of the vectors of each group, [groups, size].
      num_models: Number of models.
      own_words: Whether there are counts with own words.
      max_words: As for `to_vector`.

    Returns:
      Each of the dictionaries maps a sum to [groups] float64.
    """
    import numpy as np

    names = columns(num_models, own_words)
    values = np.maximum(vectors * bounds(names, max_words), 0.0)
    sums = dict(zip(names, values.T, strict=True))
    tokens = sums[-1, False, "tokens"]
    ends = np.minimum(sums[-1, False, "eos_tokens"], tokens)
    text = {
        "tokens": tokens,
        "eos_tokens": ends,
        "oov_tokens": np.minimum(sums[-1, False, "oov_tokens"], tokens - ends),
        "characters": sums[-1, False, "characters"],
    }
    result = []
    for model in range(num_models):
        variants = [text | {name: sums[model, False, name] for name in OF_MODEL}]
        if own_words:
            variants.append(text | {name: sums[model, True, name] for name in OF_OWN_WORDS})
        result.append(variants)
    return result
