"""Builds the `.combined` word list of `word-list`: expected counts as a keyboard's dictionary.

    p(w)     = u(w) / sum of u
    p(w | v) = b(v, w) / u(v)

u and b are the sums of `expected_counts.py`, on AOSP's scale. u(v) stands for the
number of times that v is typed, so that the text need not be counted again. Words of a lexicon
outside the table share u(OOV). Blocked words are listed with f = 0.

The value of a bigram is b(v, w) (f(v, w) - f(w)). The three likeliest words after each word come
first, because before the first letter a keyboard shows only bigrams. A bigram less than half a step
above its word's f adds no information; of these, only the three likeliest are listed.

**Privacy.** A word must be typed by `min_clients` users or be on a public list. There is no
privacy claim, and private runs are rejected.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Set

import numpy as np

from tff_keyboard.data.text import casing
from tff_keyboard.data.vocabulary import EOS, NUM_SPECIAL, OOV, Vocabulary
from tff_keyboard.predictors.tail_lexicon import TailLexicon
from tff_keyboard_app.aosp import combined_file
from tff_keyboard_app.aosp.combined_file import MAX_FREQUENCY, WordList, frequency_of
from tff_keyboard_app.aosp.expected_counts import ExpectedCounts
from tff_keyboard_app.keyboard.blocklist import Blocklist, packaged_entries
from tff_keyboard_app.keyboard.truecase import Truecase

MAX_BYTES = 2_999_000  # without remarks
_ALWAYS = 3  # bigrams of a word that fill a strip
_MIN_COUNT = 0.5  # smallest u(w) of a listed word


def build(
    counts: ExpectedCounts,
    vocabulary: Vocabulary,
    *,
    date: int,
    min_clients: int = 0,
    public_words: Set[str] = frozenset(),
    tail: TailLexicon | None = None,
    forms: Iterable[str] = (),
    max_bigrams: int | None = None,
    max_bytes: int = MAX_BYTES,
) -> WordList:
    """Builds the word list.

    Args:
      counts: Expected counts.
      vocabulary: The rows of `counts`.
      date: Seconds since 1970.
      min_clients: Number of users who must have typed a listed word; 0 lists the whole table.
      public_words: Words that are listed however many users typed them.
      tail: Words outside the table.
      forms: Words in the capitals in which they are shown.
      max_bigrams: Maximum number of bigrams; None for as many as fit into `max_bytes`.
      max_bytes: Maximum size in bytes, without remarks.

    Raises:
      ValueError: If no word may be listed, or the words alone are too large.
    """
    locale = vocabulary.rules.language
    truecase = Truecase(locale, tuple(forms))
    blocked = Blocklist(packaged_entries(locale))
    allowed = np.array([*map(combined_file.may_be_listed, vocabulary.words)])
    allowed[:NUM_SPECIAL] = False
    if min_clients:
        is_public = np.array([word in public_words for word in vocabulary.words])
        allowed &= (counts.typists >= min_clients) | is_public
    if not allowed.any():
        raise ValueError("no word was typed by enough clients. Provide text of more clients")
    names = [_in_capitals(word, truecase, locale) for word in vocabulary.words]
    uses = np.maximum(counts.unigrams, _MIN_COUNT)
    uses[:EOS] = 0
    frequencies = frequency_of(uses / uses.sum())
    banned = np.array([word in blocked for word in vocabulary.words])
    frequencies[banned] = 0
    words = {names[i]: int(frequencies[i]) for i in np.flatnonzero(allowed)}
    if tail is not None:
        share = frequency_of(uses[OOV] / uses.sum() * tail.shares.astype(np.float64))
        for word, frequency in zip(tail.words, share.tolist(), strict=True):
            if combined_file.may_be_listed(word):
                words.setdefault(
                    _in_capitals(word, truecase, locale), 0 if word in blocked else frequency
                )
    words = dict(sorted(words.items(), key=lambda item: (-item[1], item[0])))
    header = {
        "dictionary": f"main:{locale}",
        "locale": locale,
        "description": "tff-keyboard expected counts",
        "date": str(date),
        "version": "1",
    }
    bare = WordList(header, words, {})
    room = max_bytes - len(bare.to_bytes())
    if room < 0:
        raise ValueError(f"{len(words):,} words alone take more than {max_bytes:,} bytes")
    listed = np.where(allowed & ~banned)[0]
    bigrams: dict[str, dict[str, int]] = {}
    for v, w, frequency in _ranked_bigrams(counts, uses, frequencies, listed)[:max_bigrams]:
        room -= len(combined_file.bigram_line(names[w], frequency).encode()) + 1
        if room < 0:
            break
        bigrams.setdefault(names[v], {})[names[w]] = frequency
    return dataclasses.replace(bare, bigrams={v: _best_first(b) for v, b in bigrams.items()})


def _ranked_bigrams(
    counts: ExpectedCounts, uses: np.ndarray, frequencies: np.ndarray, listed: np.ndarray
) -> list[tuple[int, int, int]]:
    """Returns (v, w, f) of the bigrams that are worth a line, best first."""
    is_listed = np.zeros(len(uses), bool)
    is_listed[listed] = True
    following, sums = counts.following[listed], counts.bigrams[listed]
    unigram_frequencies = frequencies[following]
    f = np.maximum(frequency_of(sums / uses[listed, np.newaxis]), unigram_frequencies)
    gain = sums * (f - unigram_frequencies)
    possible = is_listed[following] & (sums > 0)
    order = np.argsort(np.argsort(-np.where(possible, sums, -np.inf), axis=1), axis=1)
    always = possible & (order < _ALWAYS)
    worth = always | (
        possible & (f - unigram_frequencies > (MAX_FREQUENCY - unigram_frequencies) / 33)
    )
    rows, columns = np.nonzero(worth)
    best = np.lexsort((columns, rows, -gain[rows, columns], ~always[rows, columns]))
    rows, columns = rows[best], columns[best]
    ranked = (listed[rows], following[rows, columns], f[rows, columns])
    return list(zip(*(part.tolist() for part in ranked), strict=True))


def _best_first(bigrams: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(bigrams.items(), key=lambda item: (-item[1], item[0])))


def _in_capitals(word: str, truecase: Truecase, language: str) -> str:
    """Returns the form in which a word is shown, if it differs from the word only in capitals."""
    form = truecase.form(word)
    return form if casing.lower(form, language) == word else word
