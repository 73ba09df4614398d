"""The tail lexicon: words that are not in the table, offered after their first letters.

A network has V rows; every other word is its one row OOV. The lexicon divides the probability of
that row:

    p(w | h) = p(OOV | h) u(w),    sum over the lexicon of u(w) <= 1

u(w) is a word's share of all OOV words that users typed. The lexicon offers only completions:
without a prefix, none of its words is more probable than a word of the table. In the context of the
next word, a word of the lexicon is still OOV. u(w) is counted for a word that at least
`min_clients` users typed:

    u(w) = sum over users of min(uses of w, cap) / the same sum over all OOV words

A word of only one user is therefore not in the lexicon, and the habit of one user counts at most
`cap` uses. The words of a public list share the remaining uses of words on the list, in proportion
to their frequencies. A share is rounded down to a power of e^(1/8), so that it takes one byte in a
file.

NumPy only, so that a phone runtime can use it.
"""

import bisect
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set

import numpy as np

from tff_keyboard.data.text import word_characters
from tff_keyboard.data.text.identifiers import is_identifier
from tff_keyboard.data.vocabulary import OOV, Vocabulary, is_mask
from tff_keyboard.predictors.predictor import best_words
from tff_keyboard.predictors.prefix_index import range_of

STEPS = 8  # steps per unit of a share's natural logarithm
CAP = 3  # maximum number of uses of a word that count per user
COVERED = 0.5  # share of OOV words on a public list, if no text is counted
_NO_LIST: Mapping[str, float] = {}
_SHORTEST = 2  # characters; a shorter word cannot be completed
_EMOJI = word_characters.ranges_class(word_characters.EMOJI_RANGES)
_EMOJI_MARK = word_characters.ranges_class(
    word_characters.VARIATION_RANGES, word_characters.SKIN_TONE_RANGES
)
_IN_EMOJI = f"(?<=[{_EMOJI}{_EMOJI_MARK}]){chr(word_characters.ZERO_WIDTH_JOINER)}(?=[{_EMOJI}])"
_HIDDEN = re.compile(
    f"[{word_characters.ranges_class(word_characters.HIDDEN_RANGES)}](?<!{_IN_EMOJI})"
)


class TailLexicon:
    """Words sorted by code points, each of which `may_be_listed`, with their shares.

    Args:
      words: The words.
      shares: [words] u(w), each > 0, with a sum of at most 1.

    Attributes:
      shares: [words] float32 u(w).

    Raises:
      ValueError: If the words are not sorted or not listable, or the shares are invalid.
    """

    def __init__(self, words: Sequence[str], shares: np.ndarray):
        self.words = tuple(words)
        self.shares = np.asarray(shares, np.float32)
        if any(first >= second for first, second in zip(self.words, self.words[1:], strict=False)):
            raise ValueError("words of a lexicon must be sorted and unique")
        if not may_be_listed(*self.words):
            raise ValueError(
                "a word is empty, is a mask, or contains a blank or a hidden character"
            )
        if self.shares.shape != (len(self.words),):
            raise ValueError(f"{len(self.words)} words need as many shares")
        if not np.all(self.shares > 0) or not float(self.shares.sum(dtype=np.float64)) <= 1.001:
            raise ValueError("shares must be > 0 and add up to at most 1")

    def __len__(self) -> int:
        return len(self.words)

    def check_beyond(self, vocabulary: Vocabulary) -> None:
        """Raises `ValueError` if a word is in the table; its probability would count twice."""
        if any(vocabulary.id_of(word) != OOV for word in self.words):
            raise ValueError("a word is also in the vocabulary")

    def share_of(self, word: str) -> float:
        """Returns u(word), or 0 for a word that is not listed."""
        row = bisect.bisect_left(self.words, word)
        is_here = row < len(self.words) and self.words[row] == word
        return float(self.shares[row]) if is_here else 0.0

    def best(self, prefix: str, k: int) -> list[tuple[str, float]]:
        """Returns the k words with the largest shares that start with `prefix`, largest first.

        >>> lexicon = TailLexicon(["aloha", "alpaca", "beta"], np.array([0.1, 0.2, 0.3]))
        >>> [word for word, _ in lexicon.best("al", 2)], lexicon.best("", 3)
        (['alpaca', 'aloha'], [])
        """
        if not prefix:
            return []
        first, end = range_of(self.words, prefix)
        places, shares = best_words(self.shares, np.arange(first, end), k)
        return [(self.words[i], float(u)) for i, u in zip(places, shares, strict=True)]


def may_be_listed(*words: str) -> bool:
    """Checks if a strip can offer all words: none is empty, a mask, or has invisible characters.

    Words of the supported languages need no joiner; emoji have one between two pictures.

    >>> [may_be_listed(word) for word in ("o'hara", "", "<url>", "so so", "so\\u202eos")]
    [True, False, False, False, False]
    """
    # One search for a whole lexicon: a joiner next to the letter "a" is not in an emoji.
    return all(words) and not any(map(is_mask, words)) and not _HIDDEN.search("a".join(words))


def completed(
    ranked: Iterable[tuple[str, float]], tail: TailLexicon | None, prefix: str, p_oov: float, k: int
) -> list[tuple[str, float]]:
    """Returns a strip of k words from a model and a lexicon.

    A word in both, such as a word of the owner, gets the sum of its probabilities.

    Args:
      ranked: Words and probabilities of the model, best first.
      tail: The lexicon, if any.
      prefix: Characters of the word being typed.
      p_oov: The model's p(OOV | h).
      k: Number of words.
    """
    probabilities = dict(ranked)
    if tail is not None and prefix:
        for word in probabilities:
            probabilities[word] += p_oov * tail.share_of(word)
        for word, share in tail.best(prefix, k + len(probabilities)):
            probabilities.setdefault(word, p_oov * share)
    return sorted(probabilities.items(), key=lambda item: -item[1])[
        :k
    ]  # stable: model's words first


def counted(
    clients: Iterable[Sequence[Sequence[str]]],
    vocabulary: Vocabulary,
    *,
    size: int,
    min_clients: int,
    frequencies: Mapping[str, float] = _NO_LIST,
) -> TailLexicon:
    """Builds the lexicon of users' text and of a public list.

    Leaves out words of the table, words with a digit, identifiers such as hashes
    (`identifiers.py`), and words that no strip can offer (`may_be_listed`).

    The words of the list share the part of the uses that are uses of any of them, in proportion to
    their frequencies. If no user typed one, this part is one use more; if no user typed a word
    outside the table at all, it is `COVERED`.

    Args:
      clients: The messages of each user.
      vocabulary: The table.
      size: Number of words to keep, those with the largest shares.
      min_clients: Minimum number of users that typed a word that is not on the list.
      frequencies: The public list: word -> any number in proportion to the word's use.

    Raises:
      ValueError: If no word is left.
    """
    uses: Counter[str] = Counter()
    owners: Counter[str] = Counter()
    for messages in clients:
        typed = Counter(
            word for words in messages for word in words if vocabulary.id_of(word) == OOV
        )
        uses.update({word: min(count, CAP) for word, count in typed.items()})
        owners.update(typed.keys())
    if not uses:
        return listed(frequencies, vocabulary, size=size)
    counted_words = [w for w in uses if owners[w] >= min_clients and _may_be_in_lexicon(w)]
    of_list = _shares_of_list(frequencies, vocabulary, set(counted_words))
    list_uses = sum(uses[word] for word in of_list)
    total = uses.total()
    if of_list and not list_uses:
        list_uses, total = 1, total + 1
    shares = {word: uses[word] / total for word in counted_words}
    list_shares = {word: list_uses / total * share for word, share in of_list.items()}
    return _lexicon_of_largest(shares | list_shares, size)


def listed(frequencies: Mapping[str, float], vocabulary: Vocabulary, *, size: int) -> TailLexicon:
    """Builds the lexicon of `size` words of a public list alone, if no users' text may be counted.

    The list is assumed to have the share `COVERED` of all OOV words. See `counted`.
    """
    of_list = _shares_of_list(frequencies, vocabulary, frozenset())
    return _lexicon_of_largest({word: COVERED * share for word, share in of_list.items()}, size)


def _shares_of_list(
    frequencies: Mapping[str, float], vocabulary: Vocabulary, counted_words: Set[str]
) -> dict[str, float]:
    """Returns the shares of the words of a list that are in neither table nor `counted_words`.

    Their sum is 1.
    """
    word_frequencies = {
        word: frequency
        for word, frequency in frequencies.items()
        if frequency > 0
        and word not in counted_words
        and vocabulary.id_of(word) == OOV
        and _may_be_in_lexicon(word)
    }
    total = sum(word_frequencies.values())
    return {word: frequency / total for word, frequency in word_frequencies.items()}


def _may_be_in_lexicon(word: str) -> bool:
    """Checks if a word may be in the lexicon: long enough, no digits, and not an identifier."""
    return (
        len(word) >= _SHORTEST
        and not any(character.isdigit() for character in word)
        and may_be_listed(word)
        and not is_identifier(word)
    )


def _lexicon_of_largest(shares: Mapping[str, float], size: int) -> TailLexicon:
    """Returns the lexicon of the `size` words with the largest shares."""
    words = sorted(sorted(shares, key=lambda word: (-shares[word], word))[:size])
    words = [word for word in words if shares[word] > 0]
    if not words:
        raise ValueError("no word outside the vocabulary may be offered")
    return of_steps(words, steps_of(np.array([shares[word] for word in words])))


def steps_of(shares: np.ndarray) -> np.ndarray:
    """Converts shares to their bytes in a file, never rounded up: [words] uint8."""
    steps = np.ceil(-STEPS * np.log(shares.astype(np.float64)) - 1e-4)
    return np.clip(steps, 0, 255).astype(np.uint8)


def of_steps(words: Sequence[str], steps: np.ndarray) -> TailLexicon:
    """Builds the lexicon of sorted words and the result of `steps_of`; see `TailLexicon`."""
    return TailLexicon(words, np.exp(-steps.astype(np.float64) / STEPS))
