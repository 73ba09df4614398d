"""Evaluates any `Predictor` on clients' text: sums per client, in total and by slice.

All metrics are computed in one pass over the text. The text is cut into parts, which are counted
one by one and added in order. The parts depend only on the model's vocabulary and the text, so the
sums have the same bits wherever a part is counted (`Compute`). Federated evaluation counts its sums
in TensorFlow too (`tensorflow_sums.py`). Evaluation, comparison and personalisation all use this
module; validation during training uses `batch_evaluation.py` alone.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.evaluation.counts import batch_evaluation, hybrid_stream
from tff_keyboard.evaluation.counts.counter import (
    Counter,
    Counts,
    PartCounts,
    count_positions,
    parts_of,
)
from tff_keyboard.evaluation.counts.positions import batch_targets, longest_target
from tff_keyboard.evaluation.counts.typed_text import TypedText, some_clients
from tff_keyboard.evaluation.metrics import own_metrics
from tff_keyboard.evaluation.metrics.own_metrics import CountedMetric
from tff_keyboard.predictors.hybrid.hybrid_predictor import HybridPredictor
from tff_keyboard.predictors.predictor import Predictor


class Compute(Protocol):
    """Counts the parts of a text, on this machine or on the nodes of a cluster.

    `parts` are slices of the clients. `scored` is called with the number of targets of each part,
    for the progress. The other arguments are those of `evaluate`.
    """

    def __call__(
        self,
        predictor: Predictor,
        text: TypedText,
        parts: Sequence[slice],
        *,
        max_length: int,
        reference: Vocabulary | None,
        scored: Callable[[int], None],
    ) -> Iterator[tuple[int, PartCounts]]:
        """Yields the position in `parts` and the `count_part` of each, each once, in any order."""


def evaluate(
    predictor: Predictor,
    text: TypedText,
    *,
    max_length: int = 0,
    reference: Vocabulary | None = None,
    progress: Callable[[int, int], None] | None = None,
    compute: Compute | None = None,
    metrics: Sequence[CountedMetric] = (),
) -> Counts:
    """Returns the counts per client of any model. A `HybridPredictor` learns during the evaluation.

    Args:
      predictor: The model.
      text: Words by the rules of the predictor's vocabulary.
      max_length: As for `text_batches`.
      reference: As for `text_batches`.
      progress: Called with (targets scored, total number of targets).
      compute: Counts the parts; None counts them here, one after the other.
      metrics: Metrics of the user, which are only counted here: `compute` must be None.
    """
    sizes = _sizes(predictor, text, max_length)
    targets_scored = 0

    def scored(targets: int) -> None:
        nonlocal targets_scored
        targets_scored += targets
        if progress is not None:
            progress(targets_scored, sum(sizes))

    counter = Counter(predictor.vocabulary, len(text.clients), metrics)
    waiting: dict[int, PartCounts] = {}
    next_part = 0
    assert compute is None or not metrics
    results = (compute or functools.partial(one_by_one, metrics=metrics))(
        predictor, text, parts_of(sizes), max_length=max_length, reference=reference, scored=scored
    )
    for part_index, part_counts in results:
        waiting[part_index] = part_counts
        while next_part in waiting:
            counter.add_part(waiting.pop(next_part))
            next_part += 1
    counts = counter.counts()
    own_metrics.check_shares(metrics, counts.sums)
    return counts


def count_part(
    predictor: Predictor,
    text: TypedText,
    part: slice,
    *,
    max_length: int,
    reference: Vocabulary | None,
    scored: Callable[[int], None] = lambda targets: None,
    metrics: Sequence[CountedMetric] = (),
) -> PartCounts:
    """Returns the sums of one part of a text, for each client that occurs in it.

    Args:
      predictor: The predictor.
      text: The text.
      part: For a `HybridPredictor`, which learns as it reads: the clients start:stop of `text`.
        Otherwise the batches start:stop of `text_batches`, each with messages of many clients.
      max_length: As for `text_batches`.
      reference: As for `text_batches`.
      metrics: Metrics of the user, whose sums are counted, too.
      scored: Called after each piece of work with its number of targets, for progress.
    """
    if isinstance(predictor, HybridPredictor):
        positions = hybrid_stream.positions(
            predictor,
            some_clients(text, part),
            max_length=max_length,
            reference=reference,
            metrics=metrics,
        )
        return count_positions(predictor.vocabulary, positions, part.start, scored, metrics)
    positions = batch_evaluation.scored_batches(
        predictor, text, part, max_length=max_length, reference=reference, metrics=metrics
    )
    return count_positions(predictor.vocabulary, positions, scored=scored, metrics=metrics)


def one_by_one(
    predictor: Predictor,
    text: TypedText,
    parts: Sequence[slice],
    *,
    max_length: int,
    reference: Vocabulary | None,
    scored: Callable[[int], None],
    metrics: Sequence[CountedMetric] = (),
) -> Iterator[tuple[int, PartCounts]]:
    """Counts all parts on this machine, one after the other. A `Compute`."""
    count = functools.partial(
        count_part,
        predictor,
        text,
        max_length=max_length,
        reference=reference,
        scored=scored,
        metrics=metrics,
    )
    return enumerate(map(count, parts))


def _sizes(predictor: Predictor, text: TypedText, max_length: int) -> list[int]:
    """Returns the number of targets of each batch, or of each client if the model learns."""
    if isinstance(predictor, HybridPredictor):
        limit = longest_target(max_length)
        return [sum(min(len(words) + 1, limit) for words in client) for client in text.messages]
    return batch_targets(text, predictor.vocabulary, max_length=max_length)
