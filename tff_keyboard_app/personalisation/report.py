"""The effect of personalisation on a population: totals, and their distribution over users.

Each change is the change of a user's own value on the messages typed later, so it contains the
noise of few words: even without any learning, some users would look harmed by chance. Therefore
only users with at least `MIN_WORDS` later words count there (all users, if fewer than ten
have that many).
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from tff_keyboard.evaluation.metrics import metric_table
from tff_keyboard.evaluation.statistics.clients import values_of_clients, who_counts, words_typed
from tff_keyboard.evaluation.statistics.jackknife import Interval, ratio_interval
from tff_keyboard.evaluation.statistics.sums import Sums, metric_difference, metric_interval
from tff_keyboard.host.text_table import aligned
from tff_keyboard_app.personalisation.person import CACHE, CACHE_TUNED, NETWORK, TUNED, PersonResult

GATED, CACHE_GATED = "gated", "cache_gated"
MIN_WORDS = 50

# Model -> (label, models it is compared with).
_ROWS = {
    NETWORK: ("network", ()),
    TUNED: ("fine-tuned", (NETWORK,)),
    GATED: ("fine-tuned, gated", (NETWORK,)),
    CACHE: ("network, n-gram, cache", (NETWORK,)),
    CACHE_TUNED: ("all, fine-tuned", (NETWORK, CACHE)),
    CACHE_GATED: ("all, fine-tuned, gated", (NETWORK, CACHE)),
}
METRICS = {
    name: metric_table.METRICS[name].label
    for name in ("recall_at_1_no_eos", "recall_at_3_no_eos", "kss")
}


@dataclasses.dataclass(frozen=True)
class Change:
    """A metric of one model compared with another, as fractions."""

    total: Interval  # change over all words, paired, with its 95 % interval over people
    mean: Interval  # mean of the users' own changes, each user counting once, with its interval
    worst_tenth: float  # mean change of the tenth of users who lost most
    harmed: float  # share of users with a negative change

    def to_json(self) -> dict[str, object]:
        """Returns the numbers."""
        return {
            "total": self.total.to_json(),
            "mean": self.mean.to_json(),
            "worst_tenth": self.worst_tenth,
            "harmed": self.harmed,
        }


class Summary:
    """Results of at least one user, as arrays over users.

    Attributes:
      people: Number of users.
      num_kept: Number of users for whom the gate kept the trained weights.
      diverged: Number of trainings that diverged.
      sums: Model -> sum -> [users], including the gated models.
    """

    def __init__(self, results: Sequence[PersonResult]):
        self.people = len(results)
        self.num_kept = sum(bool(result.is_kept) for result in results)
        self.diverged = sum(result.loss_after is None for result in results)
        self.sums: dict[str, Sums] = {
            model: _stacked([result.sums[model] for result in results]) for model in results[0].sums
        }
        for gated, tuned, alone in ((GATED, TUNED, NETWORK), (CACHE_GATED, CACHE_TUNED, CACHE)):
            if tuned in self.sums:
                self.sums[gated] = _stacked(
                    [result.sums[tuned if result.is_kept else alone] for result in results]
                )

    @property
    def counted(self) -> np.ndarray:
        """Users with enough words for a value of their own: [users] bool."""
        return who_counts(self.sums[NETWORK], MIN_WORDS)

    def change(self, metric: str, model: str, base: str) -> Change:
        """Returns `model` minus `base`."""
        new, old = (values_of_clients(self.sums[name], metric) for name in (model, base))
        changes = np.sort((new - old)[self.counted])
        changes = changes[np.isfinite(changes)]
        if not len(changes):
            nothing = Interval(math.nan, math.nan, math.nan, math.nan, 0)
            return Change(nothing, nothing, math.nan, math.nan)
        return Change(
            total=metric_difference(self.sums[model], self.sums[base], metric),
            mean=ratio_interval(changes, np.ones(len(changes))),
            worst_tenth=float(changes[: math.ceil(len(changes) / 10)].mean()),
            harmed=float(np.mean(changes < 0)),
        )

    def table(self) -> str:
        """Returns the report as text: values in percent, changes in points."""
        words = int(words_typed(self.sums[NETWORK]).sum())
        lines = [
            f"{self.people} clients, {words:,} evaluated words. The gate kept the trained weights "
            f"of {self.num_kept} clients ({self.num_kept / self.people:.0%})."
            + (f"; {self.diverged} diverged" if self.diverged else ""),
            f"mean, worst tenth and harmed: over the {np.count_nonzero(self.counted)} clients with "
            "the most words",
        ]
        return "\n\n".join(["\n".join(lines), *(self._table(metric) for metric in METRICS)])

    def _table(self, metric: str) -> str:
        """Returns the table of a metric: each model, and its change against others."""
        head = ["value", "against", "change", "mean of clients", "worst tenth", "harmed"]
        rows = [[METRICS[metric], *head]]
        for model, (label, bases) in _ROWS.items():
            if model not in self.sums:
                continue
            value = metric_interval(self.sums[model], metric).value
            rows.append([label, f"{100 * value:.2f}"])
            for index, base in enumerate(bases):
                change = self.change(metric, model, base)
                cells = [
                    *(rows.pop() if index == 0 else ["", ""]),
                    _ROWS[base][0].removeprefix("network, "),
                    _points(change.total),
                    _points(change.mean),
                    f"{100 * change.worst_tenth:+.2f}",
                    f"{change.harmed:.0%}",
                ]
                rows.append(cells)
        return aligned(rows)

    def to_json(self) -> dict[str, object]:
        """Returns all numbers of the tables."""
        return {
            "people": self.people,
            "kept": self.num_kept,
            "diverged": self.diverged,
            "counted": int(np.count_nonzero(self.counted)),
            "metrics": {
                metric: {
                    model: {
                        "value": metric_interval(self.sums[model], metric).to_json(),
                        "against": {
                            base: self.change(metric, model, base).to_json() for base in bases
                        },
                    }
                    for model, (_, bases) in _ROWS.items()
                    if model in self.sums
                }
                for metric in METRICS
            },
        }


def _stacked(people: Sequence[dict[str, float]]) -> Sums:
    return {name: np.array([sums[name] for sums in people]) for name in people[0]}


def _points(interval: Interval) -> str:
    ends = f"[{100 * interval.low:+.2f}, {100 * interval.high:+.2f}]"
    return f"{100 * interval.value:+.2f} {ends}"
