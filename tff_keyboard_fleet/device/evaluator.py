"""Evaluates models on the text of a device, in a round that trains nothing.

    cache, oldest first:   | older messages: own words | newest messages: counted |

The cache has only messages that no round has used: a message is deleted once it was trained on or
counted. So a model never counts a message from which the device has trained it. The newest messages
are counted, up to `Evaluation.max_words` targets. The older ones stay in the cache, and the second
count of each model learns its own words from them.

The sums are those of `compare`, computed by the same code (`tff_keyboard/evaluation/counts/`).
LiteRT computes the model. `wire/evaluation_sums.py` bounds the result.
"""

from collections.abc import Callable, Sequence

import numpy as np

from tff_keyboard.evaluation.counts import predictor_evaluation
from tff_keyboard.evaluation.counts.typed_text import TypedText
from tff_keyboard.predictors.hybrid import mixture
from tff_keyboard.predictors.hybrid.hybrid_predictor import HybridPredictor
from tff_keyboard.predictors.ngram.ngram_predictor import NGramPredictor
from tff_keyboard.predictors.predictor import Predictor
from tff_keyboard.storage.errors import ExportError
from tff_keyboard_fleet.device.trainer import LiteRtTrainer
from tff_keyboard_fleet.wire import evaluation_sums
from tff_keyboard_fleet.wire.plan import Plan

# Least number of words and ends of messages in the sums of a device. Of one short message, the
# log-likelihood of a known model is a fingerprint: only that message has exactly this number.
MIN_TARGETS = 32


def evaluate(
    trainer: LiteRtTrainer,
    models: Sequence[Callable[[], np.ndarray]],
    texts: Sequence[str],
    plan: Plan,
) -> tuple[np.ndarray, int]:
    """Returns the sums of a device, and the number of counted messages, the newest of `texts`.

    Args:
      trainer: The plan's graph. It computes each model in turn.
      models: Reads the weights of each model, [parameters] float32.
      texts: All messages of the cache, oldest first.
      plan: The plan, with an evaluation.

    Returns:
      `(vector, messages)`: `evaluation_sums.to_vector`, and a number of messages.

    Raises:
      ExportError: If the texts have fewer than `MIN_TARGETS` words and ends of messages that may be
        counted, or a model computes NaN.
      ValueError: If weights do not fit the graph.
    """
    evaluation = plan.evaluation
    assert evaluation is not None
    predictor = trainer.predictor
    words = [predictor.words_of(text) for text in texts]
    start = _first_counted(words, evaluation.max_words, plan.max_targets)
    counted = [message for message in words[start:] if message]
    targets = sum(_targets_of(message, plan.max_targets) for message in counted)
    if targets < MIN_TARGETS:
        raise ExportError(
            f"The texts have {targets} words and ends of messages to evaluate on; fewer than "
            f"{MIN_TARGETS} would tell which words they are."
        )
    before = [message for message in words[:start] if message]
    text = TypedText("device", ("device",), (counted,), before=(before,))
    counts: list[list[dict[str, float]]] = []
    for weights_of in models:
        trainer.set_weights(weights_of())
        predictor.reset()
        counts.append([_sums(predictor, text, plan)])
        if evaluation.own_words:
            hybrid = _with_own_words(trainer, evaluation.own_words)
            counts[-1].append(_sums(hybrid, text, plan))
    vector = evaluation_sums.to_vector(counts[0][0], counts, evaluation.max_words)
    if not np.isfinite(vector).all():
        raise ExportError("A model computes values that are not finite.")
    return vector, len(texts) - start


def _first_counted(words: Sequence[Sequence[str]], max_words: int, max_targets: int) -> int:
    """Returns the position of the first of the newest messages with at most `max_words` targets.

    A message counts with its words and its end, up to `max_targets`. At least one message with
    words is counted; `to_vector` cuts its sums.
    """
    total, first = 0, len(words)
    for position in reversed(range(len(words))):
        targets = _targets_of(words[position], max_targets)
        if total and total + targets > max_words:
            break
        total, first = total + targets, position
    return first


def _targets_of(words: Sequence[str], max_targets: int) -> int:
    return min(len(words) + 1, max_targets) if words else 0


def _sums(predictor: Predictor, text: TypedText, plan: Plan) -> dict[str, float]:
    counts = predictor_evaluation.evaluate(predictor, text, max_length=plan.max_targets)
    return {name: float(values[0]) for name, values in counts.sums.items()}


def _with_own_words(trainer: LiteRtTrainer, weight: float) -> HybridPredictor:
    """Returns the model with the user's own words, which have `weight` if there are any.

    A hybrid always has an n-gram. This one has no text and the weight 0.
    """
    table = np.zeros([mixture.BUCKETS, len(mixture.COMPONENTS)])
    for bucket in range(mixture.BUCKETS):
        cache_weight = 0.0 if mixture.is_empty_bucket(bucket) else weight
        table[bucket] = (1 - cache_weight, 0.0, cache_weight)
    network = trainer.predictor
    no_text = NGramPredictor.train([np.zeros(0, np.int64)], network.vocabulary, order=1)
    return HybridPredictor(network, no_text, mixture.MixtureWeights(table), index=network.index)
