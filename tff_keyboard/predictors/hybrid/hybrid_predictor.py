"""A network, an n-gram and the owner's cache as one `Predictor`.

    p(w) = lambda_1 p_network(w) + lambda_2 p_ngram(w) + lambda_3 p_cache(w)

with the weights of the position's bucket (`mixture.py`). Without an n-gram, lambda_2 is 0 and the
weights are `mixture.WITHOUT_NGRAM`. The two models use a fixed table in which
all other words are one row, OOV; the cache contains words by name. The strip may therefore offer a
word that is not in the table with probability lambda_3 p_cache(w). The row OOV of
`log_probabilities` is the sum of its probability in the models and the probabilities of all such
words, so perplexities are comparable with those of any model with the same table.

A word that is not in the table is offered from its second use on, or once its owner has rejected a
correction of it, because typing errors usually occur once. Offering it from the first use would
gain 1.1 points of keystrokes saved. Some words are never learnt (`word_cache.may_be_learnt`). After
the first letters, words of a lexicon are offered as well (`predictors/tail_lexicon.py`). They share
the models' probability of OOV.

NumPy only, so that a phone runtime can use it with an exported network.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from tff_keyboard.data.vocabulary import BOS, EOS, OOV, PAD, Vocabulary
from tff_keyboard.predictors.hybrid import mixture
from tff_keyboard.predictors.hybrid.word_cache import EDGE, KAPPA, UNIT, WordCache, may_be_learnt
from tff_keyboard.predictors.locking import Lock, locked
from tff_keyboard.predictors.ngram.compact_ngram import CompactNGram
from tff_keyboard.predictors.ngram.ngram_predictor import NGramPredictor
from tff_keyboard.predictors.predictor import Predictor, Suggestion, best_with_prefix, context_ids
from tff_keyboard.predictors.prefix_index import PrefixIndex, range_of
from tff_keyboard.predictors.tail_lexicon import TailLexicon, completed

# A strip needs a sentence, the sentence without its last words, and others in their place.
_KEPT_CONTEXTS = 8
OFFERED_FROM = 2  # number of uses; a typing error that was made once is not offered


@runtime_checkable
class Network(Predictor, Protocol):
    """A predictor that also returns the whole distribution after one context."""

    def next_word(self, context: Sequence[str]) -> np.ndarray:
        """Returns the probabilities of the next id, [V] float32."""
        ...


class CacheTable:
    """The content of a cache in the ids of a vocabulary, valid until the cache changes.

    A word that is not in the vocabulary has its own id, V + e for position e in the sorted
    `extras`, after `offered_from` uses, or if its owner has rejected a correction of it. All other
    words are OOV.
    """

    def __init__(self, cache: WordCache, vocabulary: Vocabulary, offered_from: int = OFFERED_FROM):
        self._cache = cache
        self._vocabulary = vocabulary
        self.total = cache.total
        self.extras = sorted(
            word
            for word, uses in cache.uses.items()
            if (uses >= offered_from or word in cache.exempt_words)
            and vocabulary.id_of(word) == OOV
        )
        self.extra_ids = {word: len(vocabulary) + e for e, word in enumerate(self.extras)}
        self._ids, self._shares = self._row(cache.words, max(1, sum(cache.words.values())))

    def id_of(self, word: str) -> int:
        """Returns the id in [0, V + extras) of a table word, an offered word or `EDGE`."""
        if word == EDGE:
            return EOS
        return self.extra_ids.get(word, self._vocabulary.id_of(word))

    def familiarity(self, previous: str | None) -> int:
        """Returns the cache's familiarity with the previous word; see `mixture.familiarity`."""
        return mixture.familiarity(self.total, self._followed(previous))

    def _followed(self, previous: str | None) -> float:
        """Returns the uses of a word with a following word. `EDGE` is the start of a message."""
        if previous is None:
            return 0.0
        return sum(self._cache.pairs.get(previous, {}).values()) / UNIT

    def _row(self, counts: Mapping[str, int], unit: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns distinct ids [n] int64 and their counts [n] float64, in `unit`."""
        by_id: dict[int, int] = {}
        for word, count in counts.items():
            word_id = self.id_of(word)
            by_id[word_id] = by_id.get(word_id, 0) + count
        shares = np.fromiter(by_id.values(), np.float64, len(by_id)) / unit
        return np.fromiter(by_id, np.int64, len(by_id)), shares

    def add_to(self, scores: np.ndarray, previous: str | None, weight: float) -> None:
        """Adds `weight` times the distribution after a word to `scores`, [V + extras] float32.

        `previous` is the word before; `EDGE` at the start of a message, None if unknown.
        """
        followed = self._followed(previous)
        # The ids are distinct, so += adds to each once.
        scores[self._ids] += (weight * KAPPA / (followed + KAPPA)) * self._shares
        if followed > 0 and previous is not None:
            ids, counts = self._row(self._cache.pairs[previous], UNIT)
            scores[ids] += (weight / (followed + KAPPA)) * counts


class HybridPredictor:
    """A predictor with the mixture of network, n-gram and cache.

    Several threads may use it, one at a time. While a method runs, it holds `lock`.

    Args:
      network: A Keras model or an exported file.
      ngram: An n-gram with the same words as the network, in any order, or a `ValueError`; None for
        the network and the cache alone.
      weights: The weights of the mixture.
      cache: The owner's cache, which may change at any time.
      index: An index of the network's vocabulary, if there is one already.
      offered_from: Number of uses from which on a word of the cache is offered.
      tail: Words that are not in the table.
    """

    def __init__(
        self,
        network: Network,
        ngram: NGramPredictor | None,
        weights: mixture.MixtureWeights,
        cache: WordCache | None = None,
        *,
        offered_from: int = OFFERED_FROM,
        index: PrefixIndex | None = None,
        tail: TailLexicon | None = None,
    ):
        self.vocabulary = network.vocabulary
        self.tail = tail
        self.network = network
        self.ngram = ngram
        self.weights = weights
        self.cache = cache if cache is not None else WordCache()
        self.offered_from = offered_from
        self._index = index if index is not None else PrefixIndex(self.vocabulary)
        self._to_ngram = None if ngram is None else rows_in(self.vocabulary, ngram.vocabulary)
        self._table: CacheTable | None = None
        self._table_changes = -1
        # For recent contexts: the result of `next_word`, and the models' part of it.
        self._lately: dict[tuple[str, ...], tuple[np.ndarray, np.ndarray]] = {}
        self._lately_changes = -1
        self._contexts: tuple[list[str] | None, list[int]] = (None, [])  # context of the n-gram

    @locked
    def learn(
        self,
        message: Sequence[str | None],
        exempt_words: Iterable[str] = (),
        forms: Sequence[str | None] = (),
    ) -> None:
        """Learns the normalised words of a sent message, except words that are never learnt.

        None in `message` is a gap. The owner rejected a correction of each of the `exempt_words`.
        `forms` are the words as they were written, see `WordCache.observe`.
        """
        learnable = [word if word and may_be_learnt(word) else None for word in message]
        self.cache.observe(learnable, exempt_words, forms)

    @locked
    def suggest(self, context: Sequence[str], prefix: str = "", k: int = 3) -> list[Suggestion]:
        """See `Predictor.suggest`. The result may include words of the cache and the lexicon."""
        scores = self.next_word(context)
        size = len(self.vocabulary)
        extras = self.table.extras
        ids, scores_of_best = best_with_prefix(scores[:size], self._index, prefix, k)
        best = [
            (self.vocabulary.words[i], float(p))
            for i, p in zip(ids, scores_of_best, strict=True)
            if p > 0
        ]
        first, end = range_of(extras, prefix)
        best += zip(extras[first:end], scores[size + first : size + end].tolist(), strict=True)
        return completed(best, self.tail, prefix, float(self.without_cache(context)[OOV]), k)

    @locked
    def next_word(self, context: Sequence[str]) -> np.ndarray:
        """Returns the probabilities of all words after a context, float32.

        The first V belong to the vocabulary, the others to the user's own words.
        `CacheTable.id_of` gives the index of a word.
        """
        words = list(context)
        changes = self.cache.changes
        if self._lately_changes != changes:
            self._lately, self._lately_changes = {}, changes
        cached = self._lately.get(tuple(words))
        if cached is not None:
            return cached[0]
        nodes = None if self.ngram is None else self._ngram_nodes(self.ngram, words)
        previous = words[-1] if words else EDGE
        order = 0 if nodes is None else int(mixture.matched_orders(nodes))
        weights = self._weights(order, previous)
        scores = np.zeros(len(self.vocabulary) + len(self.table.extras), np.float32)
        table_part = scores[: len(self.vocabulary)]
        np.multiply(self.network.next_word(words), np.float32(weights[0]), out=table_part)
        if self.ngram is not None and nodes is not None:
            ngram = _ngram_distribution(self.ngram, nodes)
            table_part += np.float32(weights[1]) * (
                ngram if self._to_ngram is None else ngram[self._to_ngram]
            )
        models = table_part.copy()
        if weights[2] > 0:
            self.table.add_to(scores, previous, float(weights[2]))
        if len(self._lately) >= _KEPT_CONTEXTS:
            del self._lately[next(iter(self._lately))]
        self._lately[tuple(words)] = scores, models
        return scores

    @locked
    def without_cache(self, context: Sequence[str]) -> np.ndarray:
        """Returns the part of `next_word` from the two models, [V] float32."""
        self.next_word(context)
        return self._lately[tuple(context)][1]

    @locked
    def log_probabilities(self, ids: np.ndarray) -> np.ndarray:
        """See `Predictor.log_probabilities`. Uses the current cache."""
        size = len(self.vocabulary)
        flat = ids[ids != PAD]
        network, ngram, orders = self.parts(ids)
        result = np.empty([len(flat), size], np.float32)
        scores = np.empty(size + len(self.table.extras), np.float32)
        for row, word_id in enumerate(flat):
            previous = self._previous(word_id)
            weights = self._weights(int(orders[row]), previous)
            scores[:] = 0
            scores[:size] = weights[0] * network[row] + weights[1] * ngram[row]
            if weights[2] > 0:
                self.table.add_to(scores, previous, float(weights[2]))
            result[row] = scores[:size]
            result[row, OOV] += scores[size:].sum(dtype=np.float64)
        with np.errstate(divide="ignore"):
            return np.log(result, out=result)

    @locked
    def parts(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the probabilities of the two models for a batch, without the cache.

        Args:
          ids: [batch, time] int, BOS + words, with PAD on the right.

        Returns:
          `(network, ngram, matched orders)`: [positions, V] float32 probabilities, twice, and
          [positions] int64. Without an n-gram, the network's stand for it, and the orders are 0.
        """
        real = ids != PAD
        if self.ngram is None:
            network = np.exp(self.network.log_probabilities(ids))
            return network, network, np.zeros(len(network), np.int64)
        ngram_ids = ids if self._to_ngram is None else self._to_ngram[ids]
        nodes = self.ngram.model.context_nodes(ngram_ids)[real]
        ngram = self.ngram.model.probabilities(nodes)
        if self._to_ngram is not None:
            ngram = ngram[:, self._to_ngram]
        if self.network is self.ngram:  # an n-gram baseline without a network
            return ngram, ngram, mixture.matched_orders(nodes)
        network = np.exp(self.network.log_probabilities(ids))
        return network, ngram, mixture.matched_orders(nodes)

    @property
    def lock(self) -> Lock:
        """The lock of the cache, which several keyboards may share."""
        return self.cache.lock

    @property
    @locked
    def table(self) -> CacheTable:
        """The current content of the cache."""
        if self._table is None or self._table_changes != self.cache.changes:
            self._table = CacheTable(self.cache, self.vocabulary, self.offered_from)
            self._table_changes = self.cache.changes
        return self._table

    def _weights(self, matched_order: int, previous: str | None) -> np.ndarray:
        """Returns the weights [3] for the n-gram order that matched, and the word before."""
        return self.weights.table[
            mixture.bucket_of(matched_order, self.table.familiarity(previous))
        ]

    def _previous(self, word_id: int) -> str | None:
        """Returns the word of an id as the cache names it; None for OOV, whose word is unknown."""
        if word_id == BOS:
            return EDGE
        return None if word_id == OOV else self.vocabulary.words[word_id]

    def _ngram_nodes(self, ngram: NGramPredictor, words: list[str]) -> np.ndarray:
        """Returns the n-gram's contexts after the words, [order - 1], as in `context_nodes`.

        Keeps those of the last call, from which one more word is a single step.
        """
        model = ngram.model
        before, contexts = self._contexts
        if isinstance(model, CompactNGram) and words and words[:-1] == before:
            contexts = model.step(contexts, ngram.vocabulary.id_of(words[-1]))
            self._contexts = (words, contexts)
            return np.array(contexts, np.int64)
        ids = context_ids(ngram.vocabulary, words[-model.order :])[-max(model.order - 1, 1) :]
        if isinstance(model, CompactNGram):
            self._contexts = (words, model.contexts(ids))
            return np.array(self._contexts[1], np.int64)
        return model.context_nodes(np.array([ids]))[0, -1]


def _ngram_distribution(ngram: NGramPredictor, nodes: np.ndarray) -> np.ndarray:
    """Returns P(word) [V] after the contexts, as from `HybridPredictor._ngram_nodes`."""
    model = ngram.model
    if isinstance(model, CompactNGram):
        return model.distribution(nodes.tolist())
    return model.probabilities(nodes[np.newaxis])[0]


def rows_in(outside: Vocabulary, inside: Vocabulary) -> np.ndarray | None:
    """Returns the row of `inside` for each row of `outside`, [V] int64; None if the order is equal.

    Raises `ValueError` if they do not contain the same words by the same rules.
    """
    if outside == inside:
        return None
    row = {word: i for i, word in enumerate(inside.words)}
    if outside.rules != inside.rules or row.keys() != set(outside.words):
        raise ValueError(
            "The n-gram and the network have different vocabularies: they come from different "
            "stores."
        )
    return np.array([row[word] for word in outside.words], np.int64)
