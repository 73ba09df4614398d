"""Draws texts from a next-word model, and computes the probability of given texts.

Ancestral sampling draws word after word from the model's own distribution, beginning with BOS. PAD,
BOS and OOV are not words that a user can type, so they are masked and the distribution is
renormalised. EOS is masked too if all texts must have the same number of words.
`text_log_probabilities` uses exactly the same distribution, so the probabilities of all texts that
`sample_texts` can return add up to one.

Source: Popov et al. 2018, https://arxiv.org/abs/1712.07473, who draw ten-word texts to audit
privacy (section 4), and texts on which the server learns from its clients' models (section 2.3).
"""

import numpy as np
import tensorflow as tf

from tff_keyboard.data.vocabulary import BOS, EOS, NUM_SPECIAL, PAD
from tff_keyboard.models.next_word_model import NextWordModel

# Texts processed at a time. A batch has a few [texts, vocabulary] float64 tables, which have 20 MB
# each with ten thousand words.
BATCH_SIZE = 256


def sample_texts(
    model: NextWordModel,
    num_texts: int,
    num_words: int,
    seed: int,
    *,
    allow_end: bool = False,
    batch_size: int = BATCH_SIZE,
) -> np.ndarray:
    """Draws texts from the model.

    Args:
      model: A model with a distribution over at least one word.
      num_texts: Number of texts, >= 0.
      num_words: Number of words in a text (with `allow_end`, the maximum number); >= 1.
      seed: Seed of the texts, >= 0. Text i depends only on the weights, `num_words` and the seed,
        so drawing more texts does not change the first ones.
      allow_end: Whether the model may end a text early with EOS, from the second word on. A text
        that has not ended after `num_words` words is cut.
      batch_size: Texts processed at a time; >= 1. Changes only memory and speed.

    Returns:
      [num_texts, num_words] int32 word ids without BOS and EOS; with `allow_end` padded with PAD on
      the right.

    Raises:
      ValueError: If an argument is out of range.
    """
    _require_at_least("num_texts", num_texts, 0)
    _require_at_least("num_words", num_words, 1)
    _require_at_least("seed", seed, 0)
    _require_at_least("batch_size", batch_size, 1)
    # Row by row: the draws of a text depend neither on the number of texts nor on the batch.
    uniforms = np.random.default_rng(seed).random([num_texts, num_words])
    texts = np.full([num_texts, num_words], PAD, np.int32)
    draw = tf.function(_draw_next, reduce_retracing=True)
    for start in range(0, num_texts, batch_size):
        rows = slice(start, min(start + batch_size, num_texts))
        size = rows.stop - rows.start
        state, previous = model.initial_state(size), tf.fill([size], BOS)
        for position in range(num_words):
            previous, state = draw(
                model,
                previous,
                state,
                tf.constant(uniforms[rows, position]),
                tf.constant(_allowed(model, position, allow_end)),
            )
            words = previous.numpy()
            texts[rows, position] = np.where(words == EOS, PAD, words)
            # A text that has ended stays ended: later draws of its row are ignored.
            if position and allow_end:
                texts[rows, position][texts[rows, position - 1] == PAD] = PAD
                if not texts[rows, position].any():
                    break
    return texts


def text_log_probabilities(
    model: NextWordModel,
    texts: np.ndarray,
    *,
    allow_end: bool = False,
    batch_size: int = BATCH_SIZE,
) -> np.ndarray:
    """Returns the log-probability that `sample_texts` with the same `allow_end` draws each text.

    Args:
      model: Any model.
      texts: [num_texts, num_words] int32 word ids, as `sample_texts` returns them: no special ids,
        except PAD on the right with `allow_end`.
      allow_end: Whether a text may end with EOS. A row without PAD was cut, and no EOS is counted
        for it.
      batch_size: Texts processed at a time; >= 1.

    Returns:
      [num_texts] float64, natural logarithms.

    Raises:
      ValueError: If `texts` contains other values, or `batch_size` is out of range.
    """
    texts = np.asarray(texts)
    _require_at_least("batch_size", batch_size, 1)
    _check_texts(texts, model.vocabulary_size, allow_end)
    num_texts, num_words = texts.shape
    total = np.zeros([num_texts])
    score = tf.function(_score_next, reduce_retracing=True)
    for start in range(0, num_texts, batch_size):
        rows = slice(start, min(start + batch_size, num_texts))
        batch = texts[rows].astype(np.int32)
        state, previous = model.initial_state(len(batch)), np.full([len(batch)], BOS, np.int32)
        for position in range(num_words):
            words = batch[:, position]
            targets = np.where(words == PAD, EOS, words)
            allowed = tf.constant(_allowed(model, position, allow_end))
            log_p, state = score(
                model, tf.constant(previous), state, tf.constant(targets, tf.int32), allowed
            )
            # The first PAD stands for the drawn EOS. Later ones were not drawn.
            total[rows] += np.where(previous != PAD, log_p.numpy(), 0.0)
            previous = words
    return total


def _draw_next(
    model: NextWordModel,
    previous: tf.Tensor,
    state: list[tf.Tensor],
    uniforms: tf.Tensor,
    allowed: tf.Tensor,
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Returns `(ids [batch], new state)`, by inverting the cumulative distribution."""
    logits, state = model.step(previous, state)
    cumulative = tf.cumsum(tf.exp(_masked(logits, allowed)), axis=-1)
    thresholds = (uniforms * cumulative[:, -1])[:, tf.newaxis]
    # `<=` skips ids without probability. The uniforms are < 1, so the last id with a positive
    # probability is never skipped.
    ids = tf.reduce_sum(tf.cast(cumulative <= thresholds, tf.int32), axis=-1)
    return ids, state


def _score_next(
    model: NextWordModel,
    previous: tf.Tensor,
    state: list[tf.Tensor],
    targets: tf.Tensor,
    allowed: tf.Tensor,
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Returns the log-probabilities [batch] float64 of `targets`, and the new state."""
    logits, state = model.step(previous, state)
    masked = _masked(logits, allowed)
    picked = tf.gather(masked, targets, axis=1, batch_dims=1)
    return picked - tf.reduce_logsumexp(masked, axis=-1), state


def _masked(logits: tf.Tensor, allowed: tf.Tensor) -> tf.Tensor:
    """Returns logits [batch, vocabulary] float64, at most 0, with -inf for disallowed ids.

    They are float64 because a float32 cumulative sum over ten thousand words loses the rare ones.
    """
    logits = tf.where(allowed, tf.cast(logits, tf.float64), -np.inf)
    return logits - tf.reduce_max(logits, axis=-1, keepdims=True)


def _allowed(model: NextWordModel, position: int, allow_end: bool) -> np.ndarray:
    """Returns [vocabulary] bool: the ids that are allowed at this position of a text."""
    allowed = np.arange(model.vocabulary_size) >= NUM_SPECIAL
    allowed[EOS] = allow_end and position > 0
    return allowed


def _check_texts(texts: np.ndarray, vocabulary_size: int, allow_end: bool) -> None:
    """Raises `ValueError` unless the rows are words, followed by PAD only with `allow_end`."""
    if texts.ndim != 2 or not np.issubdtype(texts.dtype, np.integer):
        raise ValueError(
            f"`texts` must be [texts, words] integers, got {texts.dtype} of shape "
            f"{list(texts.shape)}."
        )
    is_word = (texts >= NUM_SPECIAL) & (texts < vocabulary_size)
    if not allow_end:
        if not is_word.all():
            raise ValueError(
                f"`texts` must have only word ids, in [{NUM_SPECIAL}, {vocabulary_size}); got "
                f"{texts[~is_word][0]}. For texts that end early, set `allow_end`=True."
            )
        return
    if not (is_word | (texts == PAD)).all():
        bad = texts[~is_word & (texts != PAD)][0]
        raise ValueError(
            f"`texts` must have word ids in [{NUM_SPECIAL}, {vocabulary_size}) and PAD on the "
            f"right; got {bad}."
        )
    if not is_word[:, :1].all() or (is_word[:, 1:] & ~is_word[:, :-1]).any():
        raise ValueError(
            "Each row of `texts` must start with a word and have PAD only on the right."
        )


def _require_at_least(name: str, value: int, minimum: int) -> None:
    if value < minimum:
        raise ValueError(f"`{name}` must be >= {minimum}, got {value}.")
