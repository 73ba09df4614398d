"""Relative-entropy pruning: drops the n-grams that are missed least.

An n-gram (h, w) is dropped where dropping it alone changes the model least, that is where the
relative entropy to the model without it, weighted by how often h is read, is smallest. With q(v) =
p(v | h') behind the shorter context h', S the words with an n-gram of their own behind h, and gamma
the weight of the shorter context,

    D(h, w) = -p(h) { p(w | h) [log q(w) + log g - log p(w | h)]
                      + gamma (1 - sum_S q) (log g - log gamma) }
    g       = (gamma (1 - sum_S q) + p(w | h)) / (1 - sum_S q + q(w))

which is exact for the back-off form of the model: what is dropped is left to the shorter context,
what stays keeps its probability. Source: Stolcke 1998, "Entropy-based pruning of backoff language
models", https://arxiv.org/abs/cs/0006025, section 3.

Two choices of ours. p(h) is how often h stands in the training text: the lower orders of a
Kneser-Ney model are no marginals, and pruning by them goes wrong (Chelba, Brants, Neveitt and Xu
2010). And the discounted mass of a dropped n-gram goes into gamma(h): the model stays an
interpolated one, every context sums to one, and gamma needs no room in a file, for 0.3 % of
perplexity.

Pruning by the loss of the mixture with a network instead gained a hybrid nothing that could be told
(docs/evaluation.md).

An n-gram that a longer one begins with stays as long as the longer one: scores are raised to the
largest one below in the trie. All unigrams stay.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from tff_keyboard.data.vocabulary import BOS, PAD
from tff_keyboard.predictors.ngram.kneser_ney import KneserNey, Table

_MESSAGES_AT_ONCE = 1024


def context_counts(model: KneserNey, messages: Iterable[np.ndarray]) -> list[np.ndarray]:
    """How often each context of the model is read before a next word or the end of a message.

    The model is not pruned; messages are its text. [contexts] int64 for each of `model.tables`.
    """
    counts = [np.zeros(len(table.gamma), np.int64) for table in model.tables]
    for ids in _padded(messages):
        nodes = model.context_nodes(ids)[ids != PAD]
        for m, total in enumerate(counts):
            total += np.bincount(nodes[nodes[:, m] >= 0, m], minlength=len(total))
    return counts


def relative_entropies(model: KneserNey, counts: Sequence[np.ndarray]) -> list[np.ndarray]:
    """D(h, w) of every n-gram: [rows] float64, nats a word of the text, for each of `model.tables`.

    They are >= 0 up to rounding. Raises `ValueError` if the model has been pruned before: the
    shorter form of an n-gram is missing.
    """
    words = max(1, sum(int(count.sum()) for count in counts[:1]))
    result = []
    for table, count, p, q in zip(model.tables, counts, *_probabilities(model), strict=True):
        owner = _owners(table)

        def behind_context(values: np.ndarray, owner: np.ndarray = owner) -> np.ndarray:
            return np.bincount(owner, values, owner[-1] + 1 if len(owner) else 0)[owner]

        gamma = table.gamma[owner].astype(np.float64)
        unseen = np.maximum(1 - behind_context(q), 0)  # 0 where every word was seen
        freed = (gamma * unseen + p) / (unseen + q)
        entropy = p * (np.log(p) - np.log(q) - np.log(freed)) + gamma * unseen * (
            np.log(gamma) - np.log(freed)
        )
        result.append(entropy * count[owner] / words)
    return result


class Pruner:
    """Prunes one whole model, with its text, to any size; the scores are computed once.

    Rows may stay that are `allowed`, [rows] bool for each of `model.tables`; a row whose beginning
    may not stay may not either. All may stay if left out.

    Attributes:
      fewest: n-grams that always stay, the unigrams.
      most: n-grams that may stay.
    """

    def __init__(
        self,
        model: KneserNey,
        messages: Iterable[np.ndarray],
        allowed: Sequence[np.ndarray] | None = None,
    ):
        self._model = model
        self.fewest = model.num_ngrams[0]
        scores = relative_entropies(model, context_counts(model, messages))
        if allowed is not None:  # what goes in any case keeps no beginning
            scores = [np.where(may, s, -np.inf) for may, s in zip(allowed, scores, strict=True)]
        for level in reversed(range(1, len(scores))):
            starts = model.tables[level].starts
            parents = np.flatnonzero(np.diff(starts))
            if len(parents):
                best_child = np.maximum.reduceat(scores[level], starts[parents])
                scores[level - 1][parents] = np.maximum(scores[level - 1][parents], best_child)
        self._bounds = np.cumsum([0, *(len(values) for values in scores)])
        levels = np.repeat(np.arange(len(scores)), np.diff(self._bounds))
        # Best first; of equals the shorter one, so that no n-gram outlives its beginning.
        flat = np.concatenate([np.empty(0), *scores])
        self._ranking = np.lexsort((levels, -flat))
        if allowed is not None:
            may_stay = np.concatenate([np.zeros(0, bool), *allowed])
            self._ranking = self._ranking[may_stay[self._ranking]]
        self.most = self.fewest + len(self._ranking)

    def prune(self, num_ngrams: int) -> KneserNey:
        """The model with this many n-grams, unigrams counted; all of them where it has fewer.

        Raises `ValueError` if `num_ngrams` is less than `fewest`.
        """
        if num_ngrams < self.fewest:
            raise ValueError(
                f"{num_ngrams:,} n-grams are fewer than the {self.fewest:,} single words, which "
                "always stay."
            )
        keep = np.zeros(self._bounds[-1], bool)
        keep[self._ranking[: num_ngrams - self.fewest]] = True
        tables = []
        contexts = np.arange(self._model.vocabulary_size)  # rows of the order before that stay
        for level, table in enumerate(self._model.tables):
            kept = keep[self._bounds[level] : self._bounds[level + 1]]
            tables.append(_kept_part(table, kept, contexts))
            contexts = np.flatnonzero(kept)
        return KneserNey(self._model.unigram, tables)


def _kept_part(table: Table, kept: np.ndarray, contexts: np.ndarray) -> Table:
    """A table less some rows, for the contexts that are left."""
    owner = _owners(table)
    size = len(table.gamma)
    dropped = np.bincount(owner[~kept], table.discounted[~kept], size)
    children = np.bincount(owner[kept], minlength=size)[contexts]
    assert children.sum() == np.count_nonzero(kept), "a longer n-gram outlives its beginning"
    # Where nothing is left the sum is 1 up to rounding.
    gamma = np.where(children > 0, table.gamma[contexts] + dropped[contexts], 1.0)
    return Table(
        starts=np.concatenate([[0], np.cumsum(children)]).astype(np.int64),
        words=table.words[kept],
        discounted=table.discounted[kept],
        gamma=gamma.astype(np.float32),
    )


def _probabilities(model: KneserNey) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """p(w | h) and p(w | h') of every n-gram: [rows] float64 for each table."""
    size = model.vocabulary_size
    before = model.unigram.astype(np.float64)  # p of the order below, by row
    shorter_rows = np.zeros(size, np.int64)  # of each row of the order below: the row of its end
    all_p, all_q = [], []
    for level, table in enumerate(model.tables):
        owner = _owners(table)
        if level == 0:
            rows = table.words.astype(np.int64)
        else:
            keys = model.tables[level - 1].keys(size)
            wanted = shorter_rows[owner] * size + table.words
            rows = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
            if not np.array_equal(keys[rows], wanted):
                raise ValueError(
                    "The model has been pruned before; prune the whole model to the size wanted."
                )
        q = before[rows]
        p = table.discounted.astype(np.float64) + table.gamma[owner].astype(np.float64) * q
        all_p.append(p)
        all_q.append(q)
        before, shorter_rows = p, rows
    return all_p, all_q


def _owners(table: Table) -> np.ndarray:
    """[rows] int64, the context of each row."""
    return np.repeat(np.arange(len(table.gamma)), np.diff(table.starts))


def _padded(messages: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """BOS + words, [batch, time] int64, messages of about equal length together."""
    ordered = sorted(messages, key=len)
    for start in range(0, len(ordered), _MESSAGES_AT_ONCE):
        chunk = ordered[start : start + _MESSAGES_AT_ONCE]
        ids = np.full([len(chunk), 1 + len(chunk[-1])], PAD, np.int64)
        ids[:, 0] = BOS
        for row, message in zip(ids, chunk, strict=True):
            row[1 : 1 + len(message)] = message
        yield ids
