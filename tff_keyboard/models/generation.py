"""Texts drawn from a next-word model, and how probable given texts are.

Ancestral sampling: word after word from the model's own distribution, BOS read first. PAD, BOS and
OOV stand for no word a person could type, so they are masked and the rest is renormalised; EOS is
masked too where every text is to have the same number of words. `text_log_probabilities` uses the
very same distribution, so over all texts that `sample_texts` can return its probabilities add up
to one. Source: Popov et al. 2018, https://arxiv.org/abs/1712.07473, who draw ten-word texts to
audit privacy (section 4) and texts to distil models on the server (section 2.3).
"""

import numpy as np
import tensorflow as tf

from tff_keyboard.data.vocabulary import BOS, EOS, NUM_SPECIAL, PAD
from tff_keyboard.models.next_word_model import NextWordModel

# Texts walked at a time. Each holds a few [texts, vocabulary] float64 tables: 20 MB each for ten
# thousand words.
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
      num_words: Words of a text (at most so many, with `allow_end`); >= 1.
      seed: Seed of the texts, >= 0. Text i is a function of the weights, `num_words` and it:
        drawing more texts does not change the first ones.
      allow_end: Whether the model may end a text early by EOS, from its second word on. A text
        that has not ended after `num_words` is cut there.
      batch_size: Texts walked at a time; >= 1. Memory and speed only.

    Returns:
      [num_texts, num_words] int32 word ids without BOS and EOS; with `allow_end` padded with PAD
      on the right.

    Raises:
      ValueError: An argument is out of range.
    """
    _require_at_least("num_texts", num_texts, 0)
    _require_at_least("num_words", num_words, 1)
    _require_at_least("seed", seed, 0)
    _require_at_least("batch_size", batch_size, 1)
    # Row by row, so that a text keeps its draws whatever the number of texts and the batch are.
    uniforms = np.random.default_rng(seed).random([num_texts, num_words])
    texts = np.full([num_texts, num_words], PAD, np.int32)
    draw = tf.function(_draw_next, reduce_retracing=True)
    for start in range(0, num_texts, batch_size):
        rows = slice(start, min(start + batch_size, num_texts))
        size = rows.stop - rows.start
        state, previous = model.initial_state(size), tf.fill([size], BOS)
        for place in range(num_words):
            previous, state = draw(
                model,
                previous,
                state,
                tf.constant(uniforms[rows, place]),
                tf.constant(_allowed(model, place, allow_end)),
            )
            words = previous.numpy()
            texts[rows, place] = np.where(words == EOS, PAD, words)
            # Once ended, always ended: a row that read PAD or EOS draws on, and is not looked at.
            if place and allow_end:
                texts[rows, place][texts[rows, place - 1] == PAD] = PAD
                if not texts[rows, place].any():
                    break
    return texts


def text_log_probabilities(
    model: NextWordModel,
    texts: np.ndarray,
    *,
    allow_end: bool = False,
    batch_size: int = BATCH_SIZE,
) -> np.ndarray:
    """How probable `sample_texts` with the same `allow_end` is to draw each text.

    Args:
      model: Any model.
      texts: [num_texts, num_words] int32 word ids, as `sample_texts` returns them: no special ids,
        except PAD on the right with `allow_end`.
      allow_end: Whether a text may end by EOS. A row without PAD is one that was cut: its EOS does
        not count.
      batch_size: Texts walked at a time; >= 1.

    Returns:
      [num_texts] float64, natural logarithms.

    Raises:
      ValueError: `texts` holds anything else.
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
        for place in range(num_words):
            words = batch[:, place]
            targets = np.where(words == PAD, EOS, words)
            allowed = tf.constant(_allowed(model, place, allow_end))
            log_p, state = score(
                model, tf.constant(previous), state, tf.constant(targets, tf.int32), allowed
            )
            # The first PAD stands for the EOS that was drawn; what follows was not drawn.
            total[rows] += np.where(previous != PAD, log_p.numpy(), 0.0)
            previous = words
    return total


def _draw_next(model, previous, state, uniforms, allowed):
    """Inverts the cumulative distribution: `(ids [batch], new state)`."""
    logits, state = model.step(previous, state)
    cumulative = tf.cumsum(tf.exp(_masked(logits, allowed)), axis=-1)
    thresholds = (uniforms * cumulative[:, -1])[:, tf.newaxis]
    # `<=`, so that an id without probability is stepped over; the uniforms are < 1, so the last
    # id with any is never passed.
    ids = tf.reduce_sum(tf.cast(cumulative <= thresholds, tf.int32), axis=-1)
    return ids, state


def _score_next(model, previous, state, targets, allowed):
    """Log-probabilities [batch] float64 of `targets`, and the new state."""
    logits, state = model.step(previous, state)
    masked = _masked(logits, allowed)
    picked = tf.gather(masked, targets, axis=1, batch_dims=1)
    return picked - tf.reduce_logsumexp(masked, axis=-1), state


def _masked(logits: tf.Tensor, allowed: tf.Tensor) -> tf.Tensor:
    """[batch, vocabulary] float64, at most 0, with -inf where an id is not allowed.

    In float64: in float32 a cumulative sum over ten thousand words loses the rare ones.
    """
    logits = tf.where(allowed, tf.cast(logits, tf.float64), -np.inf)
    return logits - tf.reduce_max(logits, axis=-1, keepdims=True)


def _allowed(model: NextWordModel, place: int, allow_end: bool) -> np.ndarray:
    """[vocabulary] bool: what may come at this place of a text."""
    allowed = np.arange(model.vocabulary_size) >= NUM_SPECIAL
    allowed[EOS] = allow_end and place > 0
    return allowed


def _check_texts(texts: np.ndarray, vocabulary_size: int, allow_end: bool) -> None:
    if texts.ndim != 2 or not np.issubdtype(texts.dtype, np.integer):
        raise ValueError(
            f"`texts` must be [texts, words] integers, got {texts.dtype} of shape "
            f"{list(texts.shape)}."
        )
    is_word = (texts >= NUM_SPECIAL) & (texts < vocabulary_size)
    if not allow_end:
        if not is_word.all():
            raise ValueError(
                f"`texts` must hold word ids only, in [{NUM_SPECIAL}, {vocabulary_size}); got "
                f"{texts[~is_word][0]}. Texts that end early need `allow_end`=True."
            )
        return
    if not (is_word | (texts == PAD)).all():
        bad = texts[~is_word & (texts != PAD)][0]
        raise ValueError(
            f"`texts` must hold word ids in [{NUM_SPECIAL}, {vocabulary_size}) and PAD on the "
            f"right; got {bad}."
        )
    if not is_word[:, :1].all() or (is_word[:, 1:] & ~is_word[:, :-1]).any():
        raise ValueError(
            "`texts` must begin with a word and hold PAD on the right only; a row does not."
        )


def _require_at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise ValueError(f"`{name}` must be >= {least}, got {value}.")
