"""How a keyboard of AOSP's line looks words up in its dictionary, as a `Predictor`.

A word's score behind the word v, from its f and the f of the bigram:

    step = (255 - f) / 16.5
    P = f                                             without a bigram: no back-off weight
    P = f + floor((s + 1) step),   s in 0..15 the step that makedict rounds the bigram's f to

Nothing typed: the words of v's bigrams, by P; nothing at the beginning of a message or where v has
none. Behind letters: all words that begin so, by the least cost

    1.1214 (255 - P) / 255 + 0.00624 for each letter not typed but the first

that is, by P less 1.42 a letter. Of equals the shorter word comes first.

What it leaves out: keys are hit exactly, so nothing is corrected; the word as typed takes no place
of its own, although the keyboard always shows it; the owner's history and contacts, which the
keyboard adds, are empty. The scores order words and are no probabilities; `log_probabilities`
makes them add up to 1, so perplexity says little here.

Source: LatinIME's native code as HeliBoard has it (commit 8e7465c): probability_utils.h,
patricia_trie_policy.cpp, dictionary.cpp, typing_weighting.h, scoring_params.cpp; and makedict's
BinaryDictEncoderUtils.java for the steps.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from tff_keyboard.data.text import casing
from tff_keyboard.data.vocabulary import (
    BOS,
    EOS,
    NUM_SPECIAL,
    OOV,
    PAD,
    SPECIAL_WORDS,
    NormalisationRules,
    Vocabulary,
    may_be_row,
)
from tff_keyboard.predictors.aosp.combined_file import BASE, MOST, WordList
from tff_keyboard.predictors.predictor import Suggestion, best_with_prefix
from tff_keyboard.predictors.prefix_index import PrefixIndex

_STEPS = 16.5
_LAST_STEP = 15
_A_LETTER = 0.00624 * MOST / 1.1214  # of P
_OF_EQUALS = 1e-3  # so that a letter decides where nothing else does


def stored(unigram: np.ndarray, bigram: np.ndarray) -> np.ndarray:
    """P of bigrams as a `.dict` keeps them: int64.

    Args:
      unigram: f of the words, 0 to 255.
      bigram: f of the bigrams; one below the word's counts as equal to it.

    >>> stored(np.array([100, 100, 100, 255]), np.array([100, 180, 255, 255])).tolist()
    [109, 175, 250, 255]
    """
    step = (MOST - unigram) / _STEPS
    above = np.maximum(bigram, unigram) - (1 + unigram + step / 2)
    steps = np.divide(above, step, out=np.zeros_like(step), where=step > 0)
    return unigram + np.floor((np.clip(np.trunc(steps), 0, _LAST_STEP) + 1) * step).astype(np.int64)


class AospPredictor:
    """The lookup of one dictionary.

    Args:
      words: The dictionary. Words of f = 0 are never suggested, and left out; so is what a
        vocabulary cannot hold.
      rules: How the text to be typed was cut into words; forms that become one word by them count
        as one, by the largest f.
    """

    def __init__(self, words: WordList, rules: NormalisationRules):
        unigrams: dict[str, int] = {}
        for word, f in words.words.items():
            name = _normalised(word, rules)
            if f and may_be_row(name):
                unigrams[name] = max(f, unigrams.get(name, 0))
        ordered = sorted(unigrams, key=lambda word: (-unigrams[word], len(word), word))
        self.vocabulary = Vocabulary((*SPECIAL_WORDS, *ordered), rules)
        self._index = PrefixIndex(self.vocabulary)
        self._unigram = np.array([0] * NUM_SPECIAL + [unigrams[word] for word in ordered])
        self._behind: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        for word, following in words.bigrams.items():
            ids = np.array(self.vocabulary.encode([_normalised(w, rules) for w in following]))
            known = ids >= NUM_SPECIAL
            (before,) = self.vocabulary.encode([_normalised(word, rules)])
            if before >= NUM_SPECIAL and known.any():
                ids, pairs = ids[known], np.array(list(following.values()))[known]
                self._behind[before] = (ids, stored(self._unigram[ids], pairs))

    def suggest(self, context: Sequence[str], prefix: str = "", k: int = 3) -> list[Suggestion]:
        """See `Predictor.suggest`."""
        (last,) = self.vocabulary.encode(context[-1:]) if context else (BOS,)
        scores = self._completions(last) if prefix else self._predictions(last)
        ids, found = best_with_prefix(scores, self._index, prefix, k)
        listed = found > -np.inf
        words = self.vocabulary.words
        return [(words[i], math.exp(s)) for i, s in zip(ids[listed], found[listed], strict=True)]

    def log_probabilities(self, ids: np.ndarray) -> np.ndarray:
        """See `Predictor.log_probabilities`: the order behind letters."""
        return self._rows(ids, self._completions)

    def next_word_log_probabilities(self, ids: np.ndarray) -> np.ndarray:
        """The order while nothing is typed; -inf for what is not suggested. See
        `predictor.next_word_scores`."""
        return self._rows(ids, self._predictions)

    def _rows(self, ids: np.ndarray, row_of: Callable[[int], np.ndarray]) -> np.ndarray:
        last = ids[ids != PAD]
        scores = np.empty([len(last), len(self.vocabulary)], np.float32)
        for word in np.unique(last):
            scores[last == word] = row_of(int(word))
        return scores

    def _completions(self, last: int) -> np.ndarray:
        """[V] float32 behind a word."""
        values = self._unigram.astype(np.float64)
        if last in self._behind:
            ids, found = self._behind[last]
            values[ids] = found
        scores = math.log(BASE) * (values - _A_LETTER * self._index.word_lengths)
        words = scores[NUM_SPECIAL:]
        covered = np.sum(BASE ** (self._unigram[NUM_SPECIAL:] - float(MOST)))
        rest = np.clip(1 - covered, 1e-3, 0.5)  # of the text: what the list does not know
        words += math.log1p(-rest) - np.logaddexp.reduce(words)
        scores[:NUM_SPECIAL] = -np.inf
        scores[[EOS, OOV]] = math.log(rest / 2)
        return scores.astype(np.float32)

    def _predictions(self, last: int) -> np.ndarray:
        """[V] float32 behind a word, before the first letter."""
        scores = np.full(len(self.vocabulary), -np.inf, np.float32)
        if last in self._behind:
            ids, found = self._behind[last]
            lengths = self._index.word_lengths[ids]
            scores[ids] = math.log(BASE) * (found - MOST - _OF_EQUALS * lengths)
        return scores


def _normalised(word: str, rules: NormalisationRules) -> str:
    return casing.lower(word, rules.language) if rules.lowercase else word
