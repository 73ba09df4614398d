"""Network, n-gram and the owner's cache as one `Predictor`.

    p(w) = lambda_1 p_network(w) + lambda_2 p_ngram(w) + lambda_3 p_cache(w)

with the weights of the position's bucket (`mixture.py`). The two models speak of a fixed table in
which all other words are one row, OOV; the cache knows words by name. So the strip may offer a word
out of the table with lambda_3 p_cache(w), and the row OOV of `log_probabilities` holds what the
models give it and all such words together: perplexities compare with those of any model of the same
table.

A word out of the table is offered from its second use on, or once its owner insisted on it: a slip
is made once, too. Offering it at once would gain 1.1 points of keystrokes saved. Some words are
never learnt (`learnable.py`). Behind the first letters, words of a lexicon are offered as well
(`predictors/tail_lexicon.py`): they share what the two models leave to OOV.

NumPy only, so that a phone runtime can use it with an exported network.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from tff_keyboard.data.vocabulary import BOS, EOS, OOV, PAD, Vocabulary
from tff_keyboard.predictors.hybrid import mixture
from tff_keyboard.predictors.hybrid.learnable import may_be_learnt
from tff_keyboard.predictors.hybrid.word_cache import EDGE, KAPPA, UNIT, WordCache
from tff_keyboard.predictors.ngram.compact_ngram import CompactNGram
from tff_keyboard.predictors.ngram.ngram_predictor import NGramPredictor
from tff_keyboard.predictors.predictor import Predictor, Suggestion, best_with_prefix, context_ids
from tff_keyboard.predictors.prefix_index import PrefixIndex, range_of
from tff_keyboard.predictors.tail_lexicon import TailLexicon, completed

OFFERED_FROM = 2  # uses; whoever slips once should not be offered it


@runtime_checkable
class Network(Predictor, Protocol):
    """A predictor that also gives the whole distribution behind one context."""

    def next_word(self, context: Sequence[str]) -> np.ndarray:
        """[V] float32 probabilities of the next id."""
        ...


class CacheTable:
    """What a cache says in the ids of a vocabulary, until it learns or forgets.

    A word out of the vocabulary has an id of its own, V + e for place e among the sorted `extras`,
    after `offered_from` uses, or where its owner insisted on it; the others are OOV.
    """

    def __init__(self, cache: WordCache, vocabulary: Vocabulary, offered_from: int = OFFERED_FROM):
        self._cache = cache
        self._vocabulary = vocabulary
        self.total = cache.total
        self.extras = sorted(
            word
            for word, uses in cache.uses.items()
            if (uses >= offered_from or word in cache.kept) and vocabulary.id_of(word) == OOV
        )
        self.extra_ids = {word: len(vocabulary) + e for e, word in enumerate(self.extras)}
        self._ids, self._shares = self._row(cache.words, max(1, sum(cache.words.values())))

    def id_of(self, word: str) -> int:
        """Id in [0, V + extras): of a word of the table, one that may be offered, or `EDGE`."""
        if word == EDGE:
            return EOS
        return self.extra_ids.get(word, self._vocabulary.id_of(word))

    def familiarity(self, previous: str | None) -> int:
        """What is known of the word before: `mixture.familiarity`."""
        return mixture.familiarity(self.total, self._followed(previous))

    def _followed(self, previous: str | None) -> float:
        """Occurrences of a word with something behind it; `EDGE` is the start of a message."""
        if previous is None:
            return 0.0
        return sum(self._cache.pairs.get(previous, {}).values()) / UNIT

    def _row(self, counts: Mapping[str, int], unit: int) -> tuple[np.ndarray, np.ndarray]:
        """Counts by id, each id once: int64 [n] and float64 [n], in `unit`."""
        by_id: dict[int, int] = {}
        for word, count in counts.items():
            word_id = self.id_of(word)
            by_id[word_id] = by_id.get(word_id, 0) + count
        shares = np.fromiter(by_id.values(), np.float64, len(by_id)) / unit
        return np.fromiter(by_id, np.int64, len(by_id)), shares

    def add_to(self, scores: np.ndarray, previous: str | None, weight: float) -> None:
        """Adds `weight` times the distribution behind a word to `scores`, [V + extras] float32.

        `previous` is the word before; `EDGE` at the start of a message, None where unknown.
        """
        followed = self._followed(previous)
        # Ids are distinct, so += reaches each once.
        scores[self._ids] += (weight * KAPPA / (followed + KAPPA)) * self._shares
        if followed > 0 and previous is not None:
            ids, counts = self._row(self._cache.pairs[previous], UNIT)
            scores[ids] += (weight / (followed + KAPPA)) * counts


class HybridPredictor:
    """Suggestions and scores of the mixture. Not thread-safe.

    The network is a Keras model or an exported file; words of the n-gram are the network's, in any
    order, or a `ValueError`. The owner's cache may change at any time. `index` is one of the
    network's vocabulary, where there is one already; `tail` has words beyond the table.
    """

    def __init__(
        self,
        network: Network,
        ngram: NGramPredictor,
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
        self._to_ngram = rows_in(self.vocabulary, ngram.vocabulary)
        self._table: CacheTable | None = None
        self._table_changes = -1
        self._last: tuple[list[str], int, np.ndarray, np.ndarray] | None = None
        self._contexts: tuple[list[str] | None, list[int]] = (None, [])  # of the n-gram

    def learn(self, message: Sequence[str | None], kept: Iterable[str] = ()) -> None:
        """Learns normalised words that were sent (None: a gap), less what is not to be remembered.

        `kept` are those that were typed against a correction.
        """
        learnable = [word if word and may_be_learnt(word) else None for word in message]
        self.cache.observe(learnable, kept)

    def suggest(self, context: Sequence[str], prefix: str = "", k: int = 3) -> list[Suggestion]:
        """See `Predictor.suggest`; words of cache and lexicon may be among them."""
        scores = self.next_word(context)
        size = len(self.vocabulary)
        extras = self.table.extras
        ids, found = best_with_prefix(scores[:size], self._index, prefix, k)
        best = [
            (self.vocabulary.words[i], float(p)) for i, p in zip(ids, found, strict=True) if p > 0
        ]
        first, end = range_of(extras, prefix)
        best += zip(extras[first:end], scores[size + first : size + end].tolist(), strict=True)
        return completed(best, self.tail, prefix, float(self.without_cache(context)[OOV]), k)

    def next_word(self, context: Sequence[str]) -> np.ndarray:
        """[V + extras] float32 probabilities behind a context, ids as `CacheTable.id_of`."""
        words = list(context)
        changes = self.cache.changes
        if self._last is not None and self._last[:2] == (words, changes):
            return self._last[2]
        nodes = self._ngram_nodes(words)
        previous = words[-1] if words else EDGE
        weights = self._weights(int(mixture.matched_orders(nodes)), previous)
        scores = np.zeros(len(self.vocabulary) + len(self.table.extras), np.float32)
        table_part = scores[: len(self.vocabulary)]
        np.multiply(self.network.next_word(words), np.float32(weights[0]), out=table_part)
        ngram = self._ngram_distribution(nodes)
        table_part += np.float32(weights[1]) * (
            ngram if self._to_ngram is None else ngram[self._to_ngram]
        )
        models = table_part.copy()
        if weights[2] > 0:
            self.table.add_to(scores, previous, float(weights[2]))
        self._last = (words, changes, scores, models)
        return scores

    def without_cache(self, context: Sequence[str]) -> np.ndarray:
        """What the two models add to `next_word`: [V] float32."""
        self.next_word(context)
        assert self._last is not None
        return self._last[3]

    def log_probabilities(self, ids: np.ndarray) -> np.ndarray:
        """See `Predictor.log_probabilities`; with the cache as it is now."""
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

    def parts(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What the two models say of a batch; the cache is no part of it.

        `ids` are [batch, time] int, BOS + words, PAD on the right. The result is `(network, ngram,
        matched orders)`: [positions, V] float32 probabilities, twice, and [positions] int64.
        """
        real = ids != PAD
        ngram_ids = ids if self._to_ngram is None else self._to_ngram[ids]
        nodes = self.ngram.model.context_nodes(ngram_ids)[real]
        ngram = self.ngram.model.probabilities(nodes)
        if self._to_ngram is not None:
            ngram = ngram[:, self._to_ngram]
        if self.network is self.ngram:  # a baseline with its owner's words: there is no network
            return ngram, ngram, mixture.matched_orders(nodes)
        network = np.exp(self.network.log_probabilities(ids))
        return network, ngram, mixture.matched_orders(nodes)

    @property
    def table(self) -> CacheTable:
        """The cache as it is now."""
        if self._table is None or self._table_changes != self.cache.changes:
            self._table = CacheTable(self.cache, self.vocabulary, self.offered_from)
            self._table_changes = self.cache.changes
        return self._table

    def _weights(self, matched_order: int, previous: str | None) -> np.ndarray:
        return self.weights.table[
            mixture.bucket_of(matched_order, self.table.familiarity(previous))
        ]

    def _previous(self, word_id: int) -> str | None:
        """The word of an id, as the cache knows it; which word OOV was is lost."""
        if word_id == BOS:
            return EDGE
        return None if word_id == OOV else self.vocabulary.words[word_id]

    def _ngram_nodes(self, words: list[str]) -> np.ndarray:
        model = self.ngram.model
        before, contexts = self._contexts
        if isinstance(model, CompactNGram) and words and words[:-1] == before:
            contexts = model.step(contexts, self.ngram.vocabulary.id_of(words[-1]))
            self._contexts = (words, contexts)
            return np.array(contexts, np.int64)
        ids = context_ids(self.ngram.vocabulary, words[-model.order :])[-max(model.order - 1, 1) :]
        if isinstance(model, CompactNGram):
            self._contexts = (words, model.contexts(ids))
            return np.array(self._contexts[1], np.int64)
        return model.context_nodes(np.array([ids]))[0, -1]

    def _ngram_distribution(self, nodes: np.ndarray) -> np.ndarray:
        model = self.ngram.model
        if isinstance(model, CompactNGram):
            return model.distribution(nodes.tolist())
        return model.probabilities(nodes[np.newaxis])[0]


def rows_in(outside: Vocabulary, inside: Vocabulary) -> np.ndarray | None:
    """Row of `inside` for each row of `outside`: [V] int64; None where they are in one order.

    Raises `ValueError` if they do not hold the same words by the same rules.
    """
    if outside == inside:
        return None
    row = {word: i for i, word in enumerate(inside.words)}
    if outside.rules != inside.rules or row.keys() != set(outside.words):
        raise ValueError(
            "The n-gram has other words than the network: they are of different stores."
        )
    return np.array([row[word] for word in outside.words], np.int64)
