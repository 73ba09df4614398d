"""Exposure of phrases: how much better a model knows a planted phrase than a random one.

    exposure = -log2 of the share of random phrases of as many words that are at least as likely

For any model, a random phrase has 1.4 bits on average and more than b bits with probability 2^-b. A
phrase of random words that was planted in the training text and has far more was therefore
memorised. A phrase that users would write anyway has more, too, so plant random words. With N
random phrases, exposure can be measured up to log2(N + 1).

Source: Carlini et al. 2019, Definition 2 and section 4.3, https://arxiv.org/abs/1802.08232.
"""

import dataclasses
import math

import numpy as np

from tff_keyboard.data.vocabulary import NUM_SPECIAL


@dataclasses.dataclass(frozen=True)
class Exposure:
    """The exposure of one phrase."""

    bits: float  # the estimate, or the bound log2(N + 1) if no random phrase is as likely
    is_bound: bool  # whether `bits` is that bound, so that the true value may be larger
    nats_per_word: float  # mean negative log-likelihood of the phrase


def random_phrases(count: int, words: int, vocabulary_size: int, seed: int) -> np.ndarray:
    """Returns word ids [count, words] int32, uniform over the words of the vocabulary."""
    rng = np.random.default_rng([seed, words])
    return rng.integers(NUM_SPECIAL, vocabulary_size, (count, words)).astype(np.int32)


def exposure(phrase: float, random: np.ndarray, *, words: int) -> Exposure:
    """Returns the exposure of a phrase.

    Args:
      phrase: Log-likelihood of the phrase, in nats.
      random: [N] log-likelihoods of random phrases of the same length.
      words: Number of words.

    >>> exposure(-10.0, np.array([-20.0, -5.0, -30.0]), words=5).bits
    1.0
    """
    as_likely = int(np.sum(random >= phrase))
    # The phrase itself counts as one of N + 1 phrases.
    bits = math.log2(len(random) + 1) - math.log2(as_likely + 1)
    return Exposure(bits, as_likely == 0, -phrase / words)
