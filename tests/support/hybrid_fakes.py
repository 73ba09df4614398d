"""A small hybrid whose every number can be computed by hand, and people to type with it."""

import math

import numpy as np

from tff_keyboard.data.vocabulary import BOS, SPECIAL_WORDS, NormalisationRules, Vocabulary
from tff_keyboard.evaluation.counts.typed_text import TypedText
from tff_keyboard.predictors.hybrid import mixture
from tff_keyboard.predictors.hybrid.hybrid_predictor import HybridPredictor
from tff_keyboard.predictors.hybrid.mixture import BUCKETS, CACHE, MixtureWeights
from tff_keyboard.predictors.hybrid.word_cache import EDGE, UNIT, WordCache
from tff_keyboard.predictors.ngram import ngram_file
from tff_keyboard.predictors.ngram.ngram_predictor import NGramPredictor
from tff_keyboard.predictors.tail_lexicon import TailLexicon

WORDS = ["i", "am", "at", "all", "home", "here", "hey", "how", "are", "you", "your", "on", "one"]
VOCABULARY = Vocabulary((*SPECIAL_WORDS, *WORDS), NormalisationRules())
SORTED = Vocabulary((*SPECIAL_WORDS, *sorted(WORDS)), NormalisationRules())
TAIL = TailLexicon(
    ["homely", "homing", "horse", "yes", "zzz"], np.array([0.3, 0.2, 0.05, 0.1, 0.2])
)
TYPED = [*WORDS, "zzz", "homely", "<url>", "hom", "ye"]


def typed_by(people, seed, longest=9, messages=7):
    """Everybody has favourite words, some of them in no vocabulary."""
    rng = np.random.default_rng(seed)
    everyone = []
    for _ in range(people):
        weights = rng.dirichlet(np.full(len(TYPED), 0.4))
        everyone.append(
            [
                rng.choice(TYPED, rng.integers(1, longest + 1), p=weights).tolist()
                for _ in range(rng.integers(1, messages))
            ]
        )
    return TypedText("synthetic", tuple(f"p{i}" for i in range(people)), tuple(everyone))


def ngram(order, vocabulary=VOCABULARY, compact=False):
    text = typed_by(30, seed=1)
    ids = [np.array(vocabulary.encode(m)) for person in text.messages for m in person]
    predictor = NGramPredictor.train(ids, vocabulary, order=order)
    if compact:
        predictor = NGramPredictor(
            *ngram_file.decode(ngram_file.encode(predictor.model, vocabulary))
        )
    return predictor


def random_weights(seed=0):
    table = np.random.default_rng(seed).dirichlet([2, 1, 4], size=BUCKETS)
    table[:: mixture.FAMILIARITIES, CACHE] = 0
    return MixtureWeights(table / table.sum(axis=1, keepdims=True))


def hybrid(**changes):
    """A unigram stands for the network; the n-gram has its words in another order.

    Words are offered at their first use, so that short texts have some.
    """
    parts = {
        "network": ngram(1),
        "ngram": ngram(3, SORTED),
        "weights": random_weights(),
        "cache": WordCache(30, 0.1),
        "offered_from": 1,
    }
    return HybridPredictor(**{**parts, **changes})


def learn(predictor, text):
    for message in text.messages[0]:
        predictor.cache.observe(message)


def by_definition(predictor, context):
    """{word: p} over the vocabulary (specials by name) and the words of the cache."""
    p = dict.fromkeys(predictor.vocabulary.words, 0.0)
    cache = predictor.cache
    order = 0
    if predictor.ngram is not None:
        nodes = predictor.ngram.model.context_nodes(
            np.array([[BOS, *predictor.ngram.vocabulary.encode(context)]])
        )[0, -1]
        order = max([m + 1 for m, node in enumerate(nodes) if node >= 0], default=0)
    row = cache.pairs.get(context[-1] if context else EDGE, {})
    pairs = sum(row.values()) / UNIT
    table_words = 0 if not cache.words else 1 if pairs == 0 else 2 if pairs <= 3 else 3
    weights = predictor.weights.table[4 * [0, 0, 1, 2, 2][order] + table_words]
    for part, weight in zip((predictor.network, predictor.ngram), weights, strict=False):
        if part is None:
            assert weight == 0
            continue
        ids = np.array([[BOS, *part.vocabulary.encode(context)]])
        for word, score in zip(part.vocabulary.words, part.log_probabilities(ids)[-1], strict=True):
            p[word] += weight * math.exp(score)
    total = sum(cache.words.values())
    for word, count in cache.words.items():
        name = word if word != EDGE else "<eos>"
        cache_scores = (row.get(word, 0) / UNIT + count / total) / (pairs + 1)
        p[name] = p.get(name, 0.0) + weights[CACHE] * cache_scores
    return p
