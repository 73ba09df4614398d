"""Where a model is better or worse than in total: slices of the text, and groups of clients."""

import dataclasses
from collections.abc import Mapping

from tff_keyboard.evaluation.metrics.metric_table import METRICS
from tff_keyboard.evaluation.statistics.clients import typists, words_typed
from tff_keyboard.evaluation.statistics.jackknife import Interval
from tff_keyboard.evaluation.statistics.sums import Sums, metric_interval

SLICE_METRICS = ("recall_at_1_no_eos", "recall_at_3_no_eos", "kss", "perplexity_words")
TYPISTS = "typists"


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of a text."""

    clients: int  # number of clients with text in this part
    share: float  # share of all typed words
    # name in `SLICE_METRICS`, if the sums are enough for it -> its interval
    intervals: Mapping[str, Interval]


def breakdown(sums: Sums, slices: Mapping[str, Mapping[str, Sums]]) -> dict[str, dict[str, Part]]:
    """Returns the parts of each family of slices, and of `TYPISTS`: heavy, then light users.

    Leaves out the confidence, which is a curve (`reliability.py`).

    Args:
      sums: Sums of the whole text.
      slices: Family -> slice -> sums of the same clients.
    """
    families = {name: sums_of for name, sums_of in slices.items() if name != "confidence"}
    families[TYPISTS] = {
        label: {name: values[members] for name, values in sums.items()}
        for label, members in typists(sums).items()
    }
    total = float(words_typed(sums).sum())
    return {
        family: {label: _part(part, total) for label, part in parts.items()}
        for family, parts in families.items()
    }


def _part(sums: Sums, total: float) -> Part:
    """Returns the metrics of a slice. `total` is the number of words typed in all slices."""
    words = words_typed(sums)
    metric_names = [name for name in SLICE_METRICS if METRICS[name].sums <= set(sums)]
    intervals = {name: metric_interval(sums, name) for name in metric_names}
    return Part(len(words), float(words.sum()) / total, intervals)
