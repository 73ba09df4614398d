"""The predictions of a model at every position of a text, reduced to the inputs of metrics.

`text_batches` cuts a text into batches of messages with similar lengths. `score` converts the
scores of a batch, [n, V], to `Positions`: n rows of about twenty numbers.
"""

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tff_keyboard.data.vocabulary import BOS, EOS, NUM_SPECIAL, OOV, PAD, Vocabulary, is_mask
from tff_keyboard.evaluation.counts.typed_text import TypedText
from tff_keyboard.evaluation.metrics import own_metrics
from tff_keyboard.evaluation.metrics.keystrokes import characters_typed
from tff_keyboard.evaluation.metrics.metric_table import STRIP
from tff_keyboard.evaluation.metrics.own_metrics import CountedMetric, ScoredWords
from tff_keyboard.evaluation.metrics.target_ranks import target_ranks
from tff_keyboard.predictors.prefix_index import PrefixIndex

if TYPE_CHECKING:  # training imports this module, and needs no lexicon
    from tff_keyboard.predictors.tail_lexicon import TailLexicon

# Number of scores in memory: 2^24 float32 are 64 MB, 1,600 positions at V = 10,000.
_SCORES_AT_ONCE = 2**24

# A message is scored in one piece. A message as long as a book would not fit in memory.
LONGEST_MESSAGE = 4096


@dataclasses.dataclass(frozen=True)
class Batch:
    """Messages with similar lengths."""

    ids: np.ndarray  # [rows, time + 1] int32: BOS + words + EOS, cut, PAD on the right
    owner: np.ndarray  # [rows], the message's client
    message_words: np.ndarray  # [rows], words of the whole message
    words: Sequence[Sequence[str]]  # of each row, cut
    # [rows, time + 1] int32, characters of each word; 0 for BOS, EOS, PAD and masks
    lengths: np.ndarray
    masked: np.ndarray  # [rows, time + 1] bool, whether the word is a mask
    reference: np.ndarray  # [rows, time + 1] int32, ids of the words in the reference vocabulary
    # [rows, time + 1] int32, V + position of an OOV word in the lexicon; 0 for other words
    tail: np.ndarray

    @functools.cached_property
    def real(self) -> np.ndarray:
        """Positions with a target, [rows, time] bool. EOS, the last input of a row, has none."""
        return self.ids[:, 1:] != PAD

    @property
    def inputs(self) -> np.ndarray:
        """Input of `Predictor.log_probabilities`, [rows, time] int32; PAD without a target."""
        return np.where(self.real, self.ids[:, :-1], PAD)


@dataclasses.dataclass(frozen=True)
class Positions:
    """n positions, with one array [n] each."""

    owner: np.ndarray  # client of the message
    index_in_message: np.ndarray  # position of the target in its message, from 0
    message_words: np.ndarray
    # Id of the target in the reference vocabulary, which is ordered by frequency
    reference: np.ndarray
    targets: np.ndarray  # ids in the model's vocabulary
    # Whether an OOV target is a word that the strip can offer by name. If so, the ranks and `typed`
    # are those of this word.
    has_name: np.ndarray
    lengths: np.ndarray  # characters of the target; 0 for EOS and masks
    masked: np.ndarray  # whether it is a mask
    losses: np.ndarray  # -log p(target), nats, float64
    # Rank on the strip, from 0 (special ids masked); has no meaning if the target is special and
    # not `has_name`
    rank: np.ndarray
    rank_or_eos: np.ndarray  # rank on a strip that may suggest EOS
    rank_of_all: np.ndarray  # rank with nothing masked
    typed: np.ndarray  # characters typed until the word is on the strip
    confidence: np.ndarray  # probability of the first suggestion, float64
    own: np.ndarray  # [n, sums of the user's metrics], float64

    def __len__(self) -> int:
        return len(self.owner)

    @property
    def is_eos(self) -> np.ndarray:
        """Ends of messages, [positions] bool."""
        return self.targets == EOS

    @property
    def is_oov(self) -> np.ndarray:
        """OOV words, [positions] bool."""
        return self.targets == OOV

    @property
    def is_word(self) -> np.ndarray:
        """In-vocabulary words, [positions] bool."""
        return self.targets >= NUM_SPECIAL

    @staticmethod
    def concatenate(parts: Sequence["Positions"]) -> "Positions":
        """Joins the positions of several batches."""
        columns = zip(*(vars(part).values() for part in parts), strict=True)
        return Positions(*map(np.concatenate, columns))


def text_batches(
    text: TypedText,
    vocabulary: Vocabulary,
    *,
    max_length: int = 0,
    reference: Vocabulary | None = None,
    only: slice = slice(None),
    tail: "TailLexicon | None" = None,
) -> Iterator[Batch]:
    """Yields batches of the messages of all clients, sorted by length.

    Args:
      text: Words by the rules of `vocabulary`.
      vocabulary: The model's vocabulary.
      max_length: Maximum number of targets in a message, including its end; 0 means whole messages,
        up to `LONGEST_MESSAGE` targets. A negative value is a `ValueError`.
      reference: Vocabulary that orders words by frequency; None means the model's own.
      only: The batches to read.
      tail: The lexicon of the strip, if any.
    """
    messages = _by_length(text)
    for rows, width in _bounds(messages, vocabulary, max_length)[only]:
        yield _batch(messages[rows], width, vocabulary, reference, tail)


def batch_targets(text: TypedText, vocabulary: Vocabulary, *, max_length: int = 0) -> list[int]:
    """Returns the number of targets in each batch of `text_batches`."""
    messages = _by_length(text)
    limit = longest_target(max_length)
    return [
        sum(min(len(words) + 1, limit) for _, words in messages[rows])
        for rows, _ in _bounds(messages, vocabulary, max_length)
    ]


def _by_length(text: TypedText) -> list[tuple[int, Sequence[str]]]:
    """Returns the client and the words of each message, sorted by length."""
    messages = [(owner, words) for owner, client in enumerate(text.messages) for words in client]
    return sorted(messages, key=lambda item: len(item[1]))  # stable


def _bounds(
    messages: Sequence[tuple[int, Sequence[str]]], vocabulary: Vocabulary, max_length: int
) -> list[tuple[slice, int]]:
    """Returns the messages and the number of columns of each batch."""
    limit = longest_target(max_length)
    longest = [min(len(words) + 1, limit) + 1 for _, words in messages]  # including BOS
    positions = max(1, _SCORES_AT_ONCE // len(vocabulary))
    bounds, start = [], 0
    while start < len(messages):
        end = start + 1
        while end < len(messages) and longest[end] * (end + 1 - start) <= positions:
            end += 1
        bounds.append((slice(start, end), longest[end - 1]))
        start = end
    return bounds


def longest_target(max_length: int) -> int:
    """Returns the maximum number of targets that are read from a message.

    Raises `ValueError` if `max_length` is negative.
    """
    if max_length < 0:
        raise ValueError(f"`max_length` must be >= 0, got {max_length}.")
    return min(max_length or LONGEST_MESSAGE, LONGEST_MESSAGE)


def _batch(
    rows: Sequence[tuple[int, Sequence[str]]],
    width: int,
    vocabulary: Vocabulary,
    reference: Vocabulary | None,
    tail: "TailLexicon | None",
) -> Batch:
    """Builds the batch of some messages.

    Args:
      rows: The client and the words of each message, in the order of the batch's rows.
      width: Number of columns, time + 1 of `Batch`. Longer messages are cut.
      vocabulary: The model's vocabulary.
      reference: As for `text_batches`.
      tail: As for `text_batches`.
    """
    ids = np.full([len(rows), width], PAD, np.int32)
    in_reference = ids.copy()
    in_tail = ids.copy()
    tail_words = () if tail is None else tail.words
    tail_ids = {word: i for i, word in enumerate(tail_words, start=len(vocabulary))}
    lengths = np.zeros([len(rows), width], np.int32)
    masked = np.zeros([len(rows), width], bool)
    cut_words = [words[: width - 1] for _, words in rows]
    for row, words in enumerate(cut_words):
        end = [EOS] if len(words) < width - 1 else []
        ids[row, : len(words) + 1 + len(end)] = [BOS, *vocabulary.encode(words), *end]
        if reference is not None:
            in_reference[row, 1 : len(words) + 1] = reference.encode(words)
        for column, word in enumerate(words, start=1):
            in_tail[row, column] = tail_ids.get(word, 0)
            if is_mask(word):
                masked[row, column] = True
            else:
                lengths[row, column] = len(word)
    return Batch(
        ids=ids,
        owner=np.array([owner for owner, _ in rows]),
        message_words=np.array([len(words) for _, words in rows]),
        words=cut_words,
        lengths=lengths,
        masked=masked,
        reference=ids if reference is None else in_reference,
        tail=in_tail,
    )


def score(
    batch: Batch,
    scores: np.ndarray,
    index: PrefixIndex,
    tail: "TailLexicon | None" = None,
    before: np.ndarray | None = None,
    metrics: Sequence[CountedMetric] = (),
) -> Positions:
    """Reduces the scores of a batch to the properties of its targets.

    Args:
      batch: The batch.
      scores: [n, V] log-probabilities at the batch's `inputs`.
      index: Index of the model's vocabulary, followed by the words of `tail`.
      tail: The lexicon of the strip, which only offers completions.
      before: [n, V], the scores before the first letter (`predictor.next_word_scores`), if they
        differ.
      metrics: Metrics of the user.
    """
    real = batch.real
    targets = batch.ids[:, 1:][real]
    rows, index_in_message = np.nonzero(real)
    ranks = target_ranks(scores if before is None else before, targets)
    if before is not None:
        ranks = ranks.with_last(
            before[np.arange(len(targets)), targets] == -np.inf, before.shape[1]
        )
    index_ids, rank = targets, ranks.words  # [n]; the ids are those of `index`
    in_tail = batch.tail[:, 1:][real] > 0
    if tail is not None:
        index_ids = np.where(in_tail, batch.tail[:, 1:][real], targets)
        rank = np.where(in_tail, scores.shape[1], ranks.words)  # no strip before its first letter
    has_word = index_ids >= NUM_SPECIAL  # the strip can offer the target
    word_scores = scores[has_word]
    lengths = batch.lengths[:, 1:][real]
    typed = lengths.copy()
    typed[has_word] = characters_typed(
        word_scores if tail is None else _WithLexicon(word_scores, np.log(tail.shares)),
        index_ids[has_word],
        index,
        k=STRIP,
        word_ranks=rank[has_word],
    )
    metric_counts = np.zeros([len(targets), 0])
    if metrics:
        scored = ScoredWords(
            words=_words_of(batch, real),
            targets=targets,
            index_in_message=index_in_message,
            vocabulary=index.vocabulary.words[: scores.shape[1]],
            log_probabilities=scores,
            strip_scores=scores if before is None else before,
        )
        metric_counts = own_metrics.counts(metrics, scored)
    return Positions(
        owner=batch.owner[rows],
        index_in_message=index_in_message,
        message_words=batch.message_words[rows],
        reference=batch.reference[:, 1:][real],
        targets=targets,
        has_name=in_tail,
        lengths=lengths,
        masked=batch.masked[:, 1:][real],
        losses=-scores[np.arange(len(targets)), targets].astype(np.float64),
        rank=rank,
        rank_or_eos=ranks.words_or_eos,
        rank_of_all=ranks.all_ids,
        typed=typed,
        confidence=np.exp(scores[:, NUM_SPECIAL:].max(axis=1).astype(np.float64)),
        own=metric_counts,
    )


def _words_of(batch: Batch, real: np.ndarray) -> np.ndarray:
    """Returns the word of each position, [n] strings; "" for EOS."""
    words = [
        word
        for row_words, positions in zip(batch.words, real.sum(axis=1), strict=True)
        for word in [*row_words, ""][:positions]
    ]
    return np.array(words, object)


@dataclasses.dataclass(frozen=True)
class _WithLexicon:
    """Log-probabilities of words and of the lexicon, whose words have the ids from V on."""

    scores: np.ndarray  # [n, V]
    log_shares: np.ndarray

    def __call__(self, rows: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """Returns the log-probabilities of words at some positions, [rows, ids]."""
        size = self.scores.shape[1]
        in_table = ids < size
        log_probabilities = np.empty([len(rows), len(ids)], self.scores.dtype)
        log_probabilities[:, in_table] = self.scores[rows[:, np.newaxis], ids[in_table]]
        unknown = self.scores[rows, OOV][:, np.newaxis]
        log_probabilities[:, ~in_table] = unknown + self.log_shares[ids[~in_table] - size]
        return log_probabilities


def extended_vocabulary(vocabulary: Vocabulary, words: Iterable[str]) -> Vocabulary:
    """Returns a vocabulary with further words after its own rows."""
    return Vocabulary((*vocabulary.words, *words), vocabulary.rules)
