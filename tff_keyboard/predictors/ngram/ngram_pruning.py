"""Relative-entropy pruning: drops the n-grams whose loss changes the model least.

An n-gram (h, w) is dropped if dropping it alone changes the model little, that is, if the relative
entropy to the model without it, weighted by how often h is read, is small. With q(v) = p(v | h')
after the shorter context h', S the words with an n-gram after h, and gamma the weight of the
shorter context,

    D(h, w) = -p(h) { p(w | h) [log q(w) + log g - log p(w | h)]
                      + gamma (1 - sum_S q) (log g - log gamma) }
    g       = (gamma (1 - sum_S q) + p(w | h)) / (1 - sum_S q + q(w))

This is exact for the back-off form of the model: a dropped n-gram gets the probability of the
shorter context, and the others keep theirs. Source: Stolcke 1998, "Entropy-based pruning of backoff
language models", https://arxiv.org/abs/cs/0006025, section 3.

This implementation differs in two points. First, p(h) is the frequency of h in the training text,
because the lower orders of a Kneser-Ney model are not marginals and pruning by them is wrong
(Chelba, Brants, Neveitt and Xu 2010). Second, the discounted mass of a dropped n-gram is added to
gamma(h). The model stays interpolated, every context sums to one, and gamma takes no space in a
file, at a cost of 0.3 % of perplexity.

Pruning by the loss of the mixture with a network gave a hybrid no measurable gain
(docs/evaluation.md).

An n-gram that is the beginning of a longer one stays as long as the longer one: its score is raised
to the largest score below it in the trie. All unigrams stay.

**N-grams of one user.** An n-gram file contains counts of text without noise. Rare n-grams are
often private (a surname after a name, a password after "is"), and can be read from a file that
lists them. `clients_of_ngrams` counts the users of each n-gram, so that n-grams of fewer users than
required are dropped. Single words obey the vocabulary's own threshold (`data.min_word_users`). This
is k-anonymity of the listed n-grams, not differential privacy: the probabilities of the remaining
n-grams still depend on all users.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from tff_keyboard.data.vocabulary import BOS, EOS, PAD
from tff_keyboard.predictors.ngram.kneser_ney import KneserNey, NGramTable

_MESSAGES_AT_ONCE = 1024


def context_counts(model: KneserNey, messages: Iterable[np.ndarray]) -> list[np.ndarray]:
    """Counts how often each context of the model is read before a word or a message's end.

    Args:
      model: A model that is not pruned.
      messages: The text of the model.

    Returns:
      [contexts] int64 for each of `model.tables`.
    """
    counts = [np.zeros(len(table.gamma), np.int64) for table in model.tables]
    for ids in _padded(messages):
        nodes = model.context_nodes(ids)[ids != PAD]
        for m, total in enumerate(counts):
            total += np.bincount(nodes[nodes[:, m] >= 0, m], minlength=len(total))
    return counts


def relative_entropies(model: KneserNey, counts: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Returns D(h, w) of every n-gram in nats per word, [rows] float64 for each table.

    The values are >= 0 up to rounding. Raises `ValueError` if the model was pruned before, because
    the shorter form of an n-gram is then missing.
    """
    words = max(1, sum(int(count.sum()) for count in counts[:1]))
    result = []
    for table, count, p, q in zip(model.tables, counts, *_probabilities(model), strict=True):
        owner = _owners(table)

        def behind_context(values: np.ndarray, owner: np.ndarray = owner) -> np.ndarray:
            return np.bincount(owner, values, owner[-1] + 1 if len(owner) else 0)[owner]

        gamma = table.gamma[owner].astype(np.float64)
        unseen = np.maximum(1 - behind_context(q), 0)  # 0 if every word was seen
        freed = (gamma * unseen + p) / (unseen + q)
        entropy = p * (np.log(p) - np.log(q) - np.log(freed)) + gamma * unseen * (
            np.log(gamma) - np.log(freed)
        )
        result.append(entropy * count[owner] / words)
    return result


class Pruner:
    """Prunes a complete model to any size. The scores are computed once, from the model's text.

    Args:
      model: A model that is not pruned.
      messages: The text of the model.
      allowed: [rows] bool for each of `model.tables`: the n-grams that may stay. If the beginning
        of an n-gram may not stay, the n-gram may not either. None allows all.

    Attributes:
      min_ngrams: Number of n-grams that always stay, the unigrams.
      max_ngrams: Number of n-grams that may stay.
    """

    def __init__(
        self,
        model: KneserNey,
        messages: Iterable[np.ndarray],
        allowed: Sequence[np.ndarray] | None = None,
    ):
        self._model = model
        self.min_ngrams = model.num_ngrams[0]
        scores = relative_entropies(model, context_counts(model, messages))
        if allowed is not None:  # n-grams that are always dropped do not keep their beginnings
            scores = [np.where(may, s, -np.inf) for may, s in zip(allowed, scores, strict=True)]
        for level in reversed(range(1, len(scores))):
            starts = model.tables[level].starts
            parents = np.flatnonzero(np.diff(starts))
            if len(parents):
                best_child = np.maximum.reduceat(scores[level], starts[parents])
                scores[level - 1][parents] = np.maximum(scores[level - 1][parents], best_child)
        self._bounds = np.cumsum([0, *(len(values) for values in scores)])
        levels = np.repeat(np.arange(len(scores)), np.diff(self._bounds))
        # Best first, and the shorter one first if equal, so that no n-gram stays without its
        # beginning.
        flat = np.concatenate([np.empty(0), *scores])
        self._ranking = np.lexsort((levels, -flat))
        if allowed is not None:
            may_stay = np.concatenate([np.zeros(0, bool), *allowed])
            self._ranking = self._ranking[may_stay[self._ranking]]
        self.max_ngrams = self.min_ngrams + len(self._ranking)

    def prune(self, num_ngrams: int) -> KneserNey:
        """Returns the model with `num_ngrams` n-grams including unigrams, or all if it has fewer.

        Raises `ValueError` if `num_ngrams` is less than `min_ngrams`.
        """
        if num_ngrams < self.min_ngrams:
            raise ValueError(
                f"{num_ngrams:,} n-grams are fewer than the {self.min_ngrams:,} single words, "
                "which pruning always keeps."
            )
        keep = np.zeros(self._bounds[-1], bool)
        keep[self._ranking[: num_ngrams - self.min_ngrams]] = True
        tables = []
        contexts = np.arange(self._model.vocabulary_size)  # remaining rows of the previous order
        for level, table in enumerate(self._model.tables):
            is_kept = keep[self._bounds[level] : self._bounds[level + 1]]
            tables.append(_pruned_table(table, is_kept, contexts))
            contexts = np.flatnonzero(is_kept)
        return KneserNey(self._model.unigram, tables)


def clients_of_ngrams(
    model: KneserNey, messages: Sequence[np.ndarray], owners: Sequence[int]
) -> list[np.ndarray]:
    """Returns the number of distinct users of each n-gram, [rows] int64 for each of `model.tables`.

    Args:
      model: A model that is not pruned.
      messages: The text of the model, [words] each, without BOS and EOS.
      owners: The user of each message, numbers from 0 on. Another length is a `ValueError`.
    """
    if len(messages) != len(owners):
        raise ValueError(f"There are {len(messages)} messages and {len(owners)} owners.")
    size = model.vocabulary_size
    lengths = np.array([len(message) + 2 for message in messages])
    text = np.concatenate([[BOS, *message, EOS] for message in messages]).astype(np.int64)
    owner = np.repeat(np.asarray(owners, np.int64), lengths)
    is_start = np.zeros(len(text), bool)
    is_start[np.cumsum(lengths) - lengths] = True
    num_clients = int(owner.max(initial=0)) + 1
    counts = []
    before = text  # for each position, the row of the n-gram that ends there, or -1
    for table in model.tables:
        keys = table.keys(size)
        context = np.where(is_start, -1, np.roll(before, 1))
        query_keys = context * size + text
        rows = np.minimum(np.searchsorted(keys, query_keys), max(len(keys) - 1, 0))
        has_row = (
            (context >= 0) & (keys[rows] == query_keys) if len(keys) else np.zeros(len(text), bool)
        )
        pairs = np.unique(rows[has_row] * num_clients + owner[has_row])
        counts.append(np.bincount(pairs // num_clients, minlength=len(keys)))
        before = np.where(has_row, rows, -1)
    return counts


def _pruned_table(table: NGramTable, is_kept: np.ndarray, contexts: np.ndarray) -> NGramTable:
    """Returns a table without the dropped rows, for the remaining contexts."""
    owner = _owners(table)
    size = len(table.gamma)
    dropped = np.bincount(owner[~is_kept], table.discounted[~is_kept], size)
    children = np.bincount(owner[is_kept], minlength=size)[contexts]
    assert children.sum() == np.count_nonzero(is_kept), (
        "a longer n-gram was kept without its beginning"
    )
    # Without children the sum is 1 up to rounding.
    gamma = np.where(children > 0, table.gamma[contexts] + dropped[contexts], 1.0)
    return NGramTable(
        starts=np.concatenate([[0], np.cumsum(children)]).astype(np.int64),
        words=table.words[is_kept],
        discounted=table.discounted[is_kept],
        gamma=gamma.astype(np.float32),
    )


def _probabilities(model: KneserNey) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Returns p(w | h) and p(w | h') of every n-gram, [rows] float64 for each table."""
    size = model.vocabulary_size
    before = model.unigram.astype(np.float64)  # p of the next lower order, by row
    shorter_rows = np.zeros(size, np.int64)  # row of each lower row's ending
    all_p, all_q = [], []
    for level, table in enumerate(model.tables):
        owner = _owners(table)
        if level == 0:
            rows = table.words.astype(np.int64)
        else:
            keys = model.tables[level - 1].keys(size)
            query_keys = shorter_rows[owner] * size + table.words
            rows = np.minimum(np.searchsorted(keys, query_keys), max(len(keys) - 1, 0))
            if not np.array_equal(keys[rows], query_keys):
                raise ValueError(
                    "The model has already been pruned. Prune the complete model to the desired "
                    "size."
                )
        q = before[rows]
        p = table.discounted.astype(np.float64) + table.gamma[owner].astype(np.float64) * q
        all_p.append(p)
        all_q.append(q)
        before, shorter_rows = p, rows
    return all_p, all_q


def _owners(table: NGramTable) -> np.ndarray:
    """Returns the context of each row, [rows] int64."""
    return np.repeat(np.arange(len(table.gamma)), np.diff(table.starts))


def _padded(messages: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """Yields BOS + words, [batch, time] int64, in batches of messages with similar lengths."""
    ordered = sorted(messages, key=len)
    for start in range(0, len(ordered), _MESSAGES_AT_ONCE):
        chunk = ordered[start : start + _MESSAGES_AT_ONCE]
        ids = np.full([len(chunk), 1 + len(chunk[-1])], PAD, np.int64)
        ids[:, 0] = BOS
        for row, message in zip(ids, chunk, strict=True):
            row[1 : 1 + len(message)] = message
        yield ids
