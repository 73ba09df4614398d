"""Evaluates a model that does not learn while it is evaluated, in batches of similar lengths.

Validation during training uses this module alone. `predictor_evaluation.py` evaluates the hybrid
of a phone too, which learns from each message, with the same sums for the same positions.
"""

import functools
from collections.abc import Iterator, Sequence

from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.evaluation.counts.counter import Counter, Counts, count_positions, parts_of
from tff_keyboard.evaluation.counts.positions import (
    Positions,
    batch_targets,
    extended_vocabulary,
    score,
    text_batches,
)
from tff_keyboard.evaluation.counts.typed_text import TypedText
from tff_keyboard.evaluation.metrics import own_metrics
from tff_keyboard.evaluation.metrics.own_metrics import CountedMetric
from tff_keyboard.predictors.predictor import Predictor, next_word_scores, tail_of
from tff_keyboard.predictors.prefix_index import PrefixIndex


def evaluate(
    predictor: Predictor,
    text: TypedText,
    *,
    max_length: int = 0,
    metrics: Sequence[CountedMetric] = (),
) -> Counts:
    """Returns the counts per client of a model that does not learn.

    Args:
      predictor: The model.
      text: Words by the rules of the predictor's vocabulary.
      max_length: As for `text_batches`.
      metrics: Metrics of the user.
    """
    counter = Counter(predictor.vocabulary, len(text.clients), metrics)
    for part in parts_of(batch_targets(text, predictor.vocabulary, max_length=max_length)):
        pieces = scored_batches(
            predictor, text, part, max_length=max_length, reference=None, metrics=metrics
        )
        counter.add_part(count_positions(predictor.vocabulary, pieces, metrics=metrics))
    counts = counter.counts()
    own_metrics.check_shares(metrics, counts.sums)
    return counts


def scored_batches(
    predictor: Predictor,
    text: TypedText,
    part: slice,
    *,
    max_length: int,
    reference: Vocabulary | None,
    metrics: Sequence[CountedMetric] = (),
) -> Iterator[Positions]:
    """Yields the scored positions of each batch of a part of a text.

    Args:
      predictor: The model.
      text: Words by the rules of the predictor's vocabulary.
      part: The batches of `text_batches` to score.
      max_length: As for `text_batches`.
      reference: As for `text_batches`.
      metrics: Metrics of the user.
    """
    tail = tail_of(predictor)
    index = _prefix_index(predictor.vocabulary, () if tail is None else tail.words)
    for batch in text_batches(
        text, predictor.vocabulary, max_length=max_length, reference=reference, only=part, tail=tail
    ):
        scores = predictor.log_probabilities(batch.inputs)
        before = next_word_scores(predictor, batch.inputs)
        yield score(batch, scores, index, tail, before, metrics)


@functools.lru_cache(maxsize=2)
def _prefix_index(vocabulary: Vocabulary, further: tuple[str, ...]) -> PrefixIndex:
    return PrefixIndex(extended_vocabulary(vocabulary, further) if further else vocabulary)
