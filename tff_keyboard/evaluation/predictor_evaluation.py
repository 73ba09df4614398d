"""Evaluates any `Predictor` on what people typed: sums per person of every metric.

One pass over the text serves all of them. The counts of recall and perplexity carry the names of
`evaluation_sums.py`, so that ratios mean the same whether TFF or this module added them up; beside
them stand

    characters, typed_free, typed_counted    keystrokes (`keystrokes.py`)
    masked_words                             left out of keystrokes
    impressions, ..., zero_state_matches     `impressions.py`
    reciprocal_ranks                         sum of 1 / place on the strip

Messages of all people are sorted by length and scored together; each position knows its owner.
"""

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np

from tff_keyboard.data.vocabulary import BOS, EOS, NUM_SPECIAL, OOV, PAD, is_mask
from tff_keyboard.evaluation.evaluation_sums import RATIOS, STRIP
from tff_keyboard.evaluation.typed_text import TypedText
from tff_keyboard.metrics.impressions import impression_counts, reciprocal_ranks
from tff_keyboard.metrics.keystrokes import characters_typed, keystrokes_with_selection
from tff_keyboard.metrics.predictor import Predictor
from tff_keyboard.metrics.prefix_index import PrefixIndex
from tff_keyboard.metrics.target_ranks import target_ranks

# Scores held at once: 2^24 float32 are 64 MB, 1,600 positions at V = 10,000.
_SCORES_AT_ONCE = 2**24

# A message is scored in one piece. One that fills a book would not fit into memory.
LONGEST_MESSAGE = 4096

_WORDS_TYPED = {"tokens": 1, "eos_tokens": -1}

# name: (numerator, denominator), each a signed sum of sums, as in `evaluation_sums.RATIOS`.
PREDICTOR_RATIOS: dict[str, tuple[dict[str, int], dict[str, int]]] = {
    **RATIOS,
    "mrr_at_3_no_eos": ({"reciprocal_ranks": 1}, _WORDS_TYPED),
    "oov_rate": ({"oov_tokens": 1}, _WORDS_TYPED),
    "kss": ({"characters": 1, "typed_free": -1}, {"characters": 1}),
    "kss_selection_counted": ({"characters": 1, "typed_counted": -1}, {"characters": 1}),
    "prediction_impression_recall": ({"impression_matches": 1}, {"impressions": 1}),
    "zero_state_recall": ({"zero_state_matches": 1}, {"zero_state_impressions": 1}),
}


@dataclasses.dataclass(frozen=True)
class _Batch:
    """Messages of about equal length.

    Attributes:
      ids: [rows, time + 1] int32: BOS + words + EOS, cut, PAD on the right.
      owner: [rows], whose message.
      lengths: [rows, time + 1] int32, characters of the word at each place; 0 for BOS, EOS, PAD and
        masks.
      masked: [rows, time + 1] bool, whether the place is a collector's mask.
    """

    ids: np.ndarray
    owner: np.ndarray
    lengths: np.ndarray
    masked: np.ndarray


def evaluate(
    predictor: Predictor,
    text: TypedText,
    *,
    max_length: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, np.ndarray]:
    """Sums per person.

    Args:
      predictor: Any model.
      text: Normalised by the rules of the predictor's vocabulary.
      max_length: Targets of a message, at most, its end included; 0 takes whole messages, up to
        `LONGEST_MESSAGE` targets.
      progress: Called with (targets scored, targets in all).

    Returns:
      Name -> [people]: int64 counts, float64 log-likelihoods and reciprocal ranks. The names are
      those that `PREDICTOR_RATIOS` divides.

    Raises:
      ValueError: `max_length` is negative.
    """
    if max_length < 0:
        raise ValueError(f"`max_length` must be >= 0, got {max_length}.")
    max_length = min(max_length or LONGEST_MESSAGE, LONGEST_MESSAGE)
    index = PrefixIndex(predictor.vocabulary)
    people = len(text.people)
    sums: dict[str, np.ndarray] = {}
    total = sum(min(len(message) + 1, max_length) for person in text.messages for message in person)
    done = 0
    for batch in _batches(text, predictor, max_length):
        for name, values in _batch_sums(predictor, index, batch, people).items():
            sums[name] = sums[name] + values if name in sums else values
        done += int(np.count_nonzero(batch.ids[:, 1:]))
        if progress is not None:
            progress(done, total)
    return sums


def _batches(text: TypedText, predictor: Predictor, max_length: int) -> Iterator[_Batch]:
    vocabulary = predictor.vocabulary
    messages = [
        (owner, message) for owner, person in enumerate(text.messages) for message in person
    ]
    messages.sort(key=lambda item: len(item[1]))  # stable
    longest = [min(len(message) + 1, max_length) + 1 for _, message in messages]  # with BOS
    positions = max(1, _SCORES_AT_ONCE // len(vocabulary))
    start = 0
    while start < len(messages):
        end = start + 1
        while end < len(messages) and longest[end] * (end + 1 - start) <= positions:
            end += 1
        rows = messages[start:end]
        width = longest[end - 1]
        ids = np.full([len(rows), width], PAD, np.int32)
        lengths = np.zeros([len(rows), width], np.int32)
        masked = np.zeros([len(rows), width], bool)
        for row, (_, words) in enumerate(rows):
            sequence = [BOS, *vocabulary.encode(words), EOS][:width]
            ids[row, : len(sequence)] = sequence
            for place, word in enumerate(words[: width - 1], start=1):
                if is_mask(word):
                    masked[row, place] = True
                else:
                    lengths[row, place] = len(word)
        yield _Batch(ids, np.array([owner for owner, _ in rows]), lengths, masked)
        start = end


def _batch_sums(
    predictor: Predictor, index: PrefixIndex, batch: _Batch, people: int
) -> dict[str, np.ndarray]:
    inputs, targets_2d = batch.ids[:, :-1], batch.ids[:, 1:]
    # A position counts if it has a target; EOS, the last input of a short row, has none.
    real = targets_2d != PAD
    scores = predictor.log_probabilities(np.where(real, inputs, PAD))
    targets = targets_2d[real]
    rows, places = np.nonzero(real)
    owner = batch.owner[rows]
    lengths, masked = batch.lengths[:, 1:][real], batch.masked[:, 1:][real]

    ranks = target_ranks(scores, targets)
    is_word, is_eos, is_oov = targets >= NUM_SPECIAL, targets == EOS, targets == OOV
    losses = -scores[np.arange(len(targets)), targets].astype(np.float64)
    on_strip = is_word & (ranks.words < STRIP)
    argmax_hit = ranks.all_ids == 0
    word_or_eos = is_word | is_eos

    typed = lengths.copy()
    typed[is_word] = characters_typed(
        scores[is_word], targets[is_word], index, k=STRIP, word_ranks=ranks.words[is_word]
    )
    counted = keystrokes_with_selection(typed, lengths)

    def count(chosen: np.ndarray) -> np.ndarray:
        return np.bincount(owner[chosen], minlength=people)

    def add(values: np.ndarray) -> np.ndarray:
        return np.bincount(owner, weights=values, minlength=people)

    def add_whole(values: np.ndarray) -> np.ndarray:
        return add(values).astype(np.int64)  # exact: far below 2^53

    return {
        "examples": np.bincount(batch.owner, minlength=people),
        "tokens": np.bincount(owner, minlength=people),
        "eos_tokens": count(is_eos),
        "oov_tokens": count(is_oov),
        "nll": add(losses),
        "nll_eos": add(np.where(is_eos, losses, 0.0)),
        "nll_oov": add(np.where(is_oov, losses, 0.0)),
        "hits_at_1": count(is_word & (ranks.words < 1)),
        "hits_at_3": count(on_strip),
        "hits_at_1_eos_allowed": count(word_or_eos & (ranks.words_or_eos < 1)),
        "hits_at_3_eos_allowed": count(word_or_eos & (ranks.words_or_eos < STRIP)),
        "argmax_hits_words": count(argmax_hit & is_word),
        "argmax_hits_eos": count(argmax_hit & is_eos),
        "argmax_hits_oov": count(argmax_hit & is_oov),
        "characters": add_whole(lengths),
        "typed_free": add_whole(typed),
        "typed_counted": add_whole(counted),
        "masked_words": count(masked),
        "reciprocal_ranks": add(reciprocal_ranks(ranks.words, is_word, STRIP)),
        **impression_counts(on_strip, places == 0, owner, people),
    }
