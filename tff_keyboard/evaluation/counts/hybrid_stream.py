"""Evaluates a hybrid as it is used: client by client, message by message, learning after each one.

Each client starts with a cache of its earlier messages, if the text has any (`TypedText.before`),
or with an empty cache. Messages are scored in the order typed. A message is learnt before the next
one is scored, completely even if it is cut for scoring. `predictor_evaluation.py` counts the scored
positions as for any other model. The weights of the mixture are fitted in the same way on other
clients.

An OOV word that the cache contains has a name (`Positions.has_name`): its rank is its position on
the strip. A word of the lexicon has a name too, but is on no strip before its first letter.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tff_keyboard.data.vocabulary import BOS, EOS, NUM_SPECIAL, OOV, PAD, Vocabulary, is_mask
from tff_keyboard.evaluation.counts.positions import Positions, extended_vocabulary, longest_target
from tff_keyboard.evaluation.counts.typed_text import TypedText
from tff_keyboard.evaluation.metrics import own_metrics
from tff_keyboard.evaluation.metrics.keystrokes import characters_typed
from tff_keyboard.evaluation.metrics.metric_table import STRIP
from tff_keyboard.evaluation.metrics.own_metrics import CountedMetric, ScoredWords
from tff_keyboard.evaluation.metrics.target_ranks import target_ranks
from tff_keyboard.predictors.hybrid import mixture
from tff_keyboard.predictors.hybrid.hybrid_predictor import CacheTable, HybridPredictor
from tff_keyboard.predictors.hybrid.word_cache import EDGE
from tff_keyboard.predictors.prefix_index import PrefixIndex
from tff_keyboard.predictors.tail_lexicon import TailLexicon

_SCORES_AT_ONCE = 2**24  # float32: 64 MB
_MAX_EXTRAS = 4000  # maximum number of OOV words, of several clients, in one prefix index


@dataclasses.dataclass(frozen=True)
class _Message:
    """One message before it is learnt."""

    owner: int
    words: list[str]
    before: list[str]  # [n] the previous word of each target; `EDGE` for the first
    # [n] ids of the scored words, and EOS if the message was not cut
    targets: np.ndarray
    network: np.ndarray  # [n, V] float32 probabilities
    ngram: np.ndarray  # [n, V] float32 probabilities of the n-gram
    buckets: np.ndarray  # [n] buckets of the mixture
    table: CacheTable

    @property
    def typed(self) -> list[str]:
        """The word of each target [n], `EDGE` for the end."""
        return [*self.words, EDGE][: len(self.targets)]


def positions(
    hybrid: HybridPredictor,
    text: TypedText,
    *,
    max_length: int = 0,
    reference: Vocabulary | None = None,
    metrics: Sequence[CountedMetric] = (),
) -> Iterator[Positions]:
    """Yields every position of a text, client by client, scored before anything after it is learnt.

    The cache is cleared before the next client and at the end; the cache of `hybrid` is empty
    before and after. Raises `ValueError` if `max_length` is negative.
    """
    limit = longest_target(max_length)
    for first, end in _groups(text, hybrid.vocabulary):
        strip = _WordsOnStrip(
            hybrid.vocabulary, _words_outside(text, hybrid.vocabulary, first, end), hybrid.tail
        )
        extended = strip.vocabulary
        waiting: list[_Message] = []
        scores: list[np.ndarray] = []
        oov: list[np.ndarray] = []
        for message in _replay(hybrid, text, first, end, limit):
            waiting.append(dataclasses.replace(message, network=_NOTHING, ngram=_NOTHING))
            scores.append(_scores(message, hybrid.weights, extended))
            oov.append(_oov_of_models(message, hybrid.weights))
            if sum(map(len, scores)) * len(extended) >= _SCORES_AT_ONCE:
                yield _score(waiting, scores, oov, hybrid, strip, reference, metrics)
                waiting, scores, oov = [], [], []
        if waiting:
            yield _score(waiting, scores, oov, hybrid, strip, reference, metrics)


def fit_weights(
    hybrid: HybridPredictor,
    text: TypedText,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> mixture.MixtureWeights:
    """Returns the weights under which this text is most probable. Ignores the weights of `hybrid`.

    Raises `ValueError` if the text is empty.
    """
    limit = longest_target(0)
    total = sum(min(len(m) + 1, limit) for client in text.messages for m in client)
    probabilities, buckets = [], []
    num_targets = 0
    for message in _replay(hybrid, text, 0, len(text.clients), limit):
        rows = np.arange(len(message.targets))
        network, ngram = (part[rows, message.targets] for part in (message.network, message.ngram))
        cached = _cache_probabilities(message, len(hybrid.vocabulary))
        probabilities.append(np.stack([network, ngram, cached], axis=1))
        buckets.append(message.buckets)
        num_targets += len(message.targets)
        if progress is not None:
            progress(num_targets, total)
    if not buckets:
        raise ValueError("There are no words to fit the mixture on.")
    return mixture.fit(np.concatenate(probabilities), np.concatenate(buckets))[0]


_NOTHING = np.empty([0, 0], np.float32)


def _replay(
    hybrid: HybridPredictor, text: TypedText, first: int, end: int, limit: int
) -> Iterator[_Message]:
    """Yields every message of the clients from `first` to `end`, and learns it after the yield.

    Args:
      hybrid: The model. Its cache is cleared between clients and at the end.
      text: The text.
      first: Position of the first client in the text.
      end: Position after the last client.
      limit: Maximum number of targets of a message.
    """
    size = len(hybrid.vocabulary)
    for owner in range(first, end):
        hybrid.cache.forget_all()
        for words in _before(text, owner):
            hybrid.learn(words)
        messages = text.messages[owner]
        for start, stop in _runs(messages, limit, max(1, _SCORES_AT_ONCE // (2 * size))):
            targets = [
                np.array([*hybrid.vocabulary.encode(words), EOS][:limit])
                for words in messages[start:stop]
            ]
            ids = np.full([stop - start, max(map(len, targets))], PAD, np.int32)
            for row, target in zip(ids, targets, strict=True):
                row[: len(target)] = [BOS, *target[:-1]]
            network, ngram, orders = hybrid.parts(ids)
            first_row = 0
            for words, target in zip(messages[start:stop], targets, strict=True):
                rows = slice(first_row, first_row + len(target))
                first_row += len(target)
                table = hybrid.table
                before = [EDGE, *words][: len(target)]
                buckets = [
                    mixture.bucket_of(int(order), table.familiarity(word))
                    for order, word in zip(orders[rows], before, strict=True)
                ]
                parts = network[rows], ngram[rows], np.array(buckets)
                yield _Message(owner, words, before, target, *parts, table)
                hybrid.learn(words)
    hybrid.cache.forget_all()


def _runs(messages: list[list[str]], limit: int, positions: int) -> Iterator[tuple[int, int]]:
    """Yields runs of consecutive messages whose padded batch has at most `positions` positions."""
    start = 0
    while start < len(messages):
        end, longest = start + 1, min(len(messages[start]) + 1, limit)
        while end < len(messages):
            longest = max(longest, min(len(messages[end]) + 1, limit))
            if longest * (end + 1 - start) > positions:
                break
            end += 1
        yield start, end
        start = end


def _groups(text: TypedText, vocabulary: Vocabulary) -> Iterator[tuple[int, int]]:
    """Yields runs of clients whose OOV words fit in one index."""
    start, words = 0, set[str]()
    for client, messages in enumerate(text.messages):
        client_words = _unknown([*_before(text, client), *messages], vocabulary)
        if client > start and len(words | client_words) > _MAX_EXTRAS:
            yield start, client
            start, words = client, set()
        words |= client_words
    if text.messages:
        yield start, len(text.messages)


def _before(text: TypedText, client: int) -> list[list[str]]:
    return text.before[client] if text.before else []


def _unknown(messages: list[list[str]], vocabulary: Vocabulary) -> set[str]:
    """Returns the typed words that are not in the vocabulary, without masks such as `<url>`."""
    return {
        word
        for message in messages
        for word in message
        if vocabulary.id_of(word) == OOV and not is_mask(word)
    }


def _words_outside(text: TypedText, vocabulary: Vocabulary, first: int, end: int) -> set[str]:
    """Returns the words of these clients that the vocabulary does not have."""
    client_words = set[str]()
    for client in range(first, end):
        client_words |= _unknown([*_before(text, client), *text.messages[client]], vocabulary)
    return client_words


class _WordsOnStrip:
    """The words that the strip may offer for some clients: their own words, and the lexicon.

    Attributes:
      vocabulary: The model's vocabulary, extended by all other words of these clients. Its ids are
        the columns of the scores.
      index: Index of these words and of the lexicon. Its ids after the model's vocabulary are in
        alphabetical order, which breaks ties.
      listed: Words of the lexicon.
      columns: [words of the index], their columns; -1 for words that the lexicon alone has.
      shares: [words of the index] float32 shares of the lexicon, 0 for other words.
    """

    def __init__(self, vocabulary: Vocabulary, client_words: set[str], tail: TailLexicon | None):
        """Builds the index of a vocabulary, further words and a lexicon."""
        self.vocabulary = extended_vocabulary(vocabulary, sorted(client_words))
        self.listed = frozenset(() if tail is None else tail.words)
        all_words = extended_vocabulary(vocabulary, sorted(client_words | self.listed))
        self.index = PrefixIndex(all_words)
        self.columns = np.full(len(all_words), -1)
        self.columns[: len(vocabulary)] = np.arange(len(vocabulary))
        for column in range(len(vocabulary), len(self.vocabulary)):
            self.columns[all_words.id_of(self.vocabulary.words[column])] = column
        self.shares = np.zeros(len(all_words), np.float32)
        if tail is not None:
            self.shares[[all_words.id_of(word) for word in tail.words]] = tail.shares


@dataclasses.dataclass(frozen=True)
class _AfterTheFirstLetter:
    """Probabilities of all words on the strip, the lexicon's included."""

    scores: np.ndarray  # [n, columns] without the lexicon
    unknown: np.ndarray  # [n] the models' probability of OOV
    strip: _WordsOnStrip

    def __call__(self, rows: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """Returns the probabilities of words at some positions, [rows, ids]."""
        probabilities: np.ndarray = self.unknown[rows, np.newaxis] * self.strip.shares[ids]
        columns = self.strip.columns[ids]
        has_column = columns >= 0
        probabilities[:, has_column] += self.scores[rows[:, np.newaxis], columns[has_column]]
        return probabilities


def _cache_probabilities(message: _Message, size: int) -> np.ndarray:
    """Returns the cache's probability of each target, with OOV as one class, [n] float64."""
    probabilities = np.zeros(len(message.targets))
    if message.table.total > 0:
        for position, target in enumerate(message.targets):
            scores = np.zeros(size + len(message.table.extras), np.float32)
            message.table.add_to(scores, message.before[position], 1.0)
            probabilities[position] = scores[target]
            if target == OOV:
                probabilities[position] += scores[size:].sum()
    return probabilities


def _scores(message: _Message, weights: mixture.MixtureWeights, extended: Vocabulary) -> np.ndarray:
    """Returns the mixture in the ids of the extended vocabulary, [n, V + words] float32."""
    size = message.network.shape[1]
    scores = np.zeros([len(message.targets), len(extended)], np.float32)
    lambdas = weights.table[message.buckets].astype(np.float32)  # [n, 3]
    np.multiply(message.network, lambdas[:, :1], out=scores[:, :size])
    scores[:, :size] += message.ngram * lambdas[:, 1:2]
    if message.table.total > 0:
        extras = [extended.id_of(word) for word in message.table.extras]
        cache_scores = np.empty(size + len(extras), np.float32)
        for position, row in enumerate(scores):
            cache_scores[:] = 0
            weight = float(lambdas[position, 2])
            message.table.add_to(cache_scores, message.before[position], weight)
            row[:size] += cache_scores[:size]
            row[extras] += cache_scores[size:]
    return scores


def _oov_of_models(message: _Message, weights: mixture.MixtureWeights) -> np.ndarray:
    """Returns the probability of OOV from network and n-gram, [n] float32."""
    lambdas = weights.table[message.buckets].astype(np.float32)
    return message.network[:, OOV] * lambdas[:, 0] + message.ngram[:, OOV] * lambdas[:, 1]


def _score(
    messages: list[_Message],
    score_parts: list[np.ndarray],
    oov_parts: list[np.ndarray],
    hybrid: HybridPredictor,
    strip: _WordsOnStrip,
    reference: Vocabulary | None,
    metrics: Sequence[CountedMetric],
) -> Positions:
    """Scores messages like `positions.score`, but with one row of scores per target.

    Args:
      messages: The messages.
      score_parts: [n, V + words] float32 probabilities, in parts; words of these clients.
      oov_parts: [n] the models' probability of OOV, in parts.
      hybrid: The model.
      strip: The words that the strip may offer.
      reference: Vocabulary whose ids are ordered by frequency.
      metrics: Metrics of the user.
    """
    scores = np.concatenate(score_parts)
    size = len(hybrid.vocabulary)
    targets = np.concatenate([message.targets for message in messages])
    words = [word for message in messages for word in message.typed]
    masked = np.array([is_mask(word) for word in words])
    lengths = np.where(masked, 0, [len(word) for word in words]).astype(np.int32)
    # If cache or lexicon contain an OOV word, the strip may offer it, with its id in the index.
    has_name = np.array(
        [
            message.table.id_of(word) >= size or word in strip.listed
            for message in messages
            for word in message.typed
        ]
    )
    names = list(itertools.compress(words, has_name))
    score_ids = targets.copy()  # [n] the target's column of `scores`
    score_ids[has_name] = [strip.vocabulary.id_of(word) for word in names]
    index_ids = targets.copy()  # [n] the target's id in the index of the strip
    index_ids[has_name] = [strip.index.vocabulary.id_of(word) for word in names]

    scores[:, OOV] += scores[:, size:].sum(axis=1)  # as one class, with a name or without
    rows = np.arange(len(targets))
    losses = -np.log(scores[rows, targets].astype(np.float64))
    ranks = target_ranks(scores, score_ids)
    rank_of_all = ranks.all_ids.copy()
    rank_of_all[has_name] = _rank_of_oov(scores[has_name, :size])
    has_word = score_ids >= NUM_SPECIAL  # the strip can offer the target
    oov_probability = np.concatenate(oov_parts)
    typed = lengths.copy()
    typed[has_word] = characters_typed(
        _AfterTheFirstLetter(scores[has_word], oov_probability[has_word], strip),
        index_ids[has_word],
        strip.index,
        k=STRIP,
        word_ranks=ranks.words[has_word],
    )
    index_in_message = np.concatenate([np.arange(len(m.targets)) for m in messages])
    metric_counts = np.zeros([len(targets), 0])
    if metrics:
        with np.errstate(divide="ignore"):
            log_probabilities = np.log(scores[:, :size])
        scored = ScoredWords(
            words=np.array(words, object),
            targets=targets,
            index_in_message=index_in_message,
            vocabulary=hybrid.vocabulary.words,
            log_probabilities=log_probabilities,
            strip_scores=scores,
            further_words=strip.vocabulary.words[size:],
        )
        metric_counts = own_metrics.counts(metrics, scored)
    return Positions(
        owner=np.repeat([m.owner for m in messages], [len(m.targets) for m in messages]),
        index_in_message=index_in_message,
        message_words=np.repeat(
            [len(m.words) for m in messages], [len(m.targets) for m in messages]
        ),
        reference=targets if reference is None else np.array(reference.encode(words)),
        targets=targets,
        has_name=has_name,
        lengths=lengths,
        masked=masked,
        losses=losses,
        rank=ranks.words,
        rank_or_eos=ranks.words_or_eos,
        rank_of_all=rank_of_all,
        typed=typed,
        confidence=scores[:, NUM_SPECIAL:].max(axis=1).astype(np.float64),
        own=metric_counts,
    )


def _rank_of_oov(scores: np.ndarray) -> np.ndarray:
    """Returns the number of table ids that are ranked before OOV: [n, V] -> [n]."""
    oov_scores = scores[:, OOV, np.newaxis]
    ties = np.count_nonzero(scores[:, :OOV] == oov_scores, axis=1)
    return np.count_nonzero(scores > oov_scores, axis=1) + ties
