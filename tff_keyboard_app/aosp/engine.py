"""The dictionary lookup of AOSP's keyboard and its descendants, as a `Predictor`.

The score of a word after the word v follows from its f and the f of the bigram:

    step = (255 - f) / 16.5
    P = f                                             without a bigram: no back-off weight
    P = f + floor((s + 1) step),   s in 0..15 the step that makedict rounds the bigram's f to

If no letter is typed, the suggestions are the words of v's bigrams, by P. There are none at the
beginning of a message, or if v has no bigrams. After letters, they are all words with this
beginning, by the least cost

    1.1214 (255 - P) / 255 + 0.00624 for each letter not typed but the first

that is, by P less 1.42 a letter. Of words with equal cost, the shorter comes first.

The simulation leaves out: corrections, because keys are hit exactly; the typed word itself, which
the keyboard always shows; the user's history and contacts, which the keyboard adds. The scores
order words and are not probabilities. `log_probabilities` normalises them to a sum of 1, so its
perplexity has little meaning.

Source: LatinIME's native code as HeliBoard has it (commit 8e7465c): probability_utils.h,
patricia_trie_policy.cpp, dictionary.cpp, typing_weighting.h, scoring_params.cpp; and makedict's
BinaryDictEncoderUtils.java for the steps.
"""

import math
import pathlib
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
from tff_keyboard.evaluation.model_specs.named_predictor import NamedPredictor
from tff_keyboard.predictors.predictor import Suggestion, best_with_prefix
from tff_keyboard.predictors.prefix_index import PrefixIndex
from tff_keyboard_app.aosp import combined_file
from tff_keyboard_app.aosp.combined_file import BASE, MAX_FREQUENCY, WordList

_STEPS = 16.5
_LAST_STEP = 15
_A_LETTER = 0.00624 * MAX_FREQUENCY / 1.1214  # cost of a letter, in units of P
_OF_EQUALS = 1e-3  # cost of a letter among words of equal P


def bigram_scores(unigram: np.ndarray, bigram: np.ndarray) -> np.ndarray:
    """Returns P of bigrams as a `.dict` stores them: int64.

    Args:
      unigram: f of the words, 0 to 255.
      bigram: f of the bigrams. An f below the word's counts as equal to it.

    >>> bigram_scores(np.array([100, 100, 100, 255]), np.array([100, 180, 255, 255])).tolist()
    [109, 175, 250, 255]
    """
    step = (MAX_FREQUENCY - unigram) / _STEPS
    above = np.maximum(bigram, unigram) - (1 + unigram + step / 2)
    steps = np.divide(above, step, out=np.zeros_like(step), where=step > 0)
    return unigram + np.floor((np.clip(np.trunc(steps), 0, _LAST_STEP) + 1) * step).astype(np.int64)


class AospPredictor:
    """The lookup of one dictionary.

    Args:
      words: The dictionary. Words of f = 0 and words that a vocabulary cannot hold are left out.
      rules: Rules by which the text was cut into words. Forms that these rules make equal count as
        one word, with the largest f.
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
            in_vocabulary = ids >= NUM_SPECIAL
            (before,) = self.vocabulary.encode([_normalised(word, rules)])
            if before >= NUM_SPECIAL and in_vocabulary.any():
                ids, pairs = ids[in_vocabulary], np.array(list(following.values()))[in_vocabulary]
                self._behind[before] = (ids, bigram_scores(self._unigram[ids], pairs))

    def suggest(self, context: Sequence[str], prefix: str = "", k: int = 3) -> list[Suggestion]:
        """See `Predictor.suggest`."""
        (last,) = self.vocabulary.encode(context[-1:]) if context else (BOS,)
        scores = self._completions(last) if prefix else self._predictions(last)
        ids, best = best_with_prefix(scores, self._index, prefix, k)
        listed = best > -np.inf
        words = self.vocabulary.words
        return [(words[i], math.exp(s)) for i, s in zip(ids[listed], best[listed], strict=True)]

    def log_probabilities(self, ids: np.ndarray) -> np.ndarray:
        """See `Predictor.log_probabilities`. Ordered like suggestions after letters."""
        return self._rows(ids, self._completions)

    def next_word_log_probabilities(self, ids: np.ndarray) -> np.ndarray:
        """Returns scores before the first letter, -inf for words that are not suggested.

        See `predictor.next_word_scores`.
        """
        return self._rows(ids, self._predictions)

    def _rows(self, ids: np.ndarray, row_of: Callable[[int], np.ndarray]) -> np.ndarray:
        """Returns `row_of(word)` [V] for each of the words before the targets, [n, V] float32."""
        last = ids[ids != PAD]
        scores = np.empty([len(last), len(self.vocabulary)], np.float32)
        for word in np.unique(last):
            scores[last == word] = row_of(int(word))
        return scores

    def _completions(self, last: int) -> np.ndarray:
        """Returns scores [V] float32 of words after a word, once letters are typed."""
        values = self._unigram.astype(np.float64)
        if last in self._behind:
            ids, frequencies = self._behind[last]
            values[ids] = frequencies
        scores = math.log(BASE) * (values - _A_LETTER * self._index.word_lengths)
        words = scores[NUM_SPECIAL:]
        covered = np.sum(BASE ** (self._unigram[NUM_SPECIAL:] - float(MAX_FREQUENCY)))
        unlisted_share = np.clip(1 - covered, 1e-3, 0.5)  # of the text
        words += math.log1p(-unlisted_share) - np.logaddexp.reduce(words)
        scores[:NUM_SPECIAL] = -np.inf
        scores[[EOS, OOV]] = math.log(unlisted_share / 2)
        return scores.astype(np.float32)

    def _predictions(self, last: int) -> np.ndarray:
        """Returns scores [V] float32 of words after a word, before the first letter."""
        scores = np.full(len(self.vocabulary), -np.inf, np.float32)
        if last in self._behind:
            ids, frequencies = self._behind[last]
            lengths = self._index.word_lengths[ids]
            scores[ids] = math.log(BASE) * (frequencies - MAX_FREQUENCY - _OF_EQUALS * lengths)
        return scores


def _normalised(word: str, rules: NormalisationRules) -> str:
    return casing.lower(word, rules.language) if rules.lowercase else word


def open_word_list(
    path: pathlib.Path, name: str, vocabularies: Sequence[Vocabulary]
) -> NamedPredictor:
    """Opens a `.combined` word list with AOSP's lookup.

    Registered as an entry point of `tff_keyboard.model_files`.

    Args:
      path: The word list.
      name: Name of the model in tables.
      vocabularies: Vocabularies of other models. The word list is read with the normalisation rules
        of the first one.

    Raises:
      DataError: If the file cannot be read, or is not a word list.
    """
    words = combined_file.read(path)
    rules = vocabularies[0].rules if vocabularies else NormalisationRules()
    details = {"bytes": path.stat().st_size, "words": len(words.words)}
    details["bigrams"] = words.num_bigrams
    return NamedPredictor(name, "aosp", AospPredictor(words, rules), details, str(path))
