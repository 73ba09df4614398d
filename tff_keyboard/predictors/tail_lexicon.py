"""The tail lexicon: words beyond the table, which a keyboard completes once they are begun.

A network has V rows; every other word is its one row OOV. The lexicon says how that row is shared:

    p(w | h) = p(OOV | h) u(w),    sum over the lexicon of u(w) <= 1

with u(w) a word's share of all OOV words that people typed. It offers completions only: behind an
empty prefix no word of it is likelier than a word of the table. Such a word goes on being OOV to
the context of the next. u(w) of a word that `least_people` people typed is counted:

    u(w) = sum over people of min(uses of w, cap) / the same sum over all OOV words

so that nobody's own word enters, and one person's habit weighs no more than `cap` uses. Words of a
public list share, in proportion to their frequencies, what people typed of them beyond that. A
share is rounded down to a power of e^(1/8), so that a file keeps it in a byte.

NumPy only, so that a phone runtime can use it.
"""

import bisect
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tff_keyboard.data.text import word_characters
from tff_keyboard.data.text.identifiers import is_identifier
from tff_keyboard.data.vocabulary import OOV, Vocabulary, is_mask
from tff_keyboard.predictors.predictor import best_words
from tff_keyboard.predictors.prefix_index import range_of

STEPS = 8  # of a share's logarithm, to one
CAP = 3  # uses of one word by one person that count
COVERED = 0.5  # of what is OOV, by a public list, where nothing was counted
_NO_LIST: Mapping[str, float] = {}
_SHORTEST = 2  # characters; a shorter word has nothing to be completed
_EMOJI = word_characters.ranges_class(word_characters.EMOJI_RANGES)
_EMOJI_MARK = word_characters.ranges_class(
    word_characters.VARIATION_RANGES, word_characters.SKIN_TONE_RANGES
)
_IN_EMOJI = f"(?<=[{_EMOJI}{_EMOJI_MARK}]){chr(word_characters.ZERO_WIDTH_JOINER)}(?=[{_EMOJI}])"
_HIDDEN = re.compile(
    f"[{word_characters.ranges_class(word_characters.HIDDEN_RANGES)}](?<!{_IN_EMOJI})"
)


class TailLexicon:
    """Words in the order of their code points, all of which `may_be_listed`, with their shares.

    Attributes:
      shares: [words] float32 u(w), each above 0, together at most 1.

    Raises:
      ValueError: The words are not in order or none, or the shares are none.
    """

    def __init__(self, words: Sequence[str], shares: np.ndarray):
        self.words = tuple(words)
        self.shares = np.asarray(shares, np.float32)
        if any(first >= second for first, second in zip(self.words, self.words[1:], strict=False)):
            raise ValueError("words of a lexicon must be in order, each once")
        if not may_be_listed(*self.words):
            raise ValueError("a word is empty, a mask, or holds a blank or a hidden character")
        if self.shares.shape != (len(self.words),):
            raise ValueError(f"{len(self.words)} words need as many shares")
        if not np.all(self.shares > 0) or not float(self.shares.sum(dtype=np.float64)) <= 1.001:
            raise ValueError("shares must be above 0, and at most 1 together")

    def __len__(self) -> int:
        return len(self.words)

    def check_beyond(self, vocabulary: Vocabulary) -> None:
        """Raises `ValueError` if a word is of the table: its probability would count twice."""
        if any(vocabulary.id_of(word) != OOV for word in self.words):
            raise ValueError("a word is one of the table")

    def share_of(self, word: str) -> float:
        """u(word); 0 for a word that is not listed."""
        place = bisect.bisect_left(self.words, word)
        is_here = place < len(self.words) and self.words[place] == word
        return float(self.shares[place]) if is_here else 0.0

    def best(self, prefix: str, k: int) -> list[tuple[str, float]]:
        """The k words of the largest shares that start with `prefix`, largest first.

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
    """Whether a strip can offer each word: it is there, no mask, and all of it can be seen.

    Words of our languages need no joiner; emoji have one between two pictures.

    >>> [may_be_listed(word) for word in ("o'hara", "", "<url>", "so so", "so\\u202eos")]
    [True, False, False, False, False]
    """
    # Of a whole lexicon in one search: a joiner beside the letter in between is in no emoji.
    return all(words) and not any(map(is_mask, words)) and not _HIDDEN.search("a".join(words))


def completed(
    ranked: Iterable[tuple[str, float]], tail: TailLexicon | None, prefix: str, p_oov: float, k: int
) -> list[tuple[str, float]]:
    """A strip of k words, those of a lexicon among those of a model, `ranked` best first.

    A word that both have, such as one of the owner's, gets both probabilities. `p_oov` is the
    model's p(OOV | h).
    """
    found = dict(ranked)
    if tail is not None and prefix:
        for word in found:
            found[word] += p_oov * tail.share_of(word)
        for word, share in tail.best(prefix, k + len(found)):
            found.setdefault(word, p_oov * share)
    return sorted(found.items(), key=lambda item: -item[1])[:k]  # stable: of equals the model's


def tail_of(predictor: object) -> TailLexicon | None:
    """The lexicon behind a predictor's strip, None where it has none."""
    return getattr(predictor, "tail", None)


def counted(
    people: Iterable[Sequence[Sequence[str]]],
    vocabulary: Vocabulary,
    *,
    size: int,
    least_people: int,
    frequencies: Mapping[str, float] = _NO_LIST,
) -> TailLexicon:
    """The lexicon of a text, the messages of each person, and of a public list beside it.

    Words of the table are left out, and so are words with a digit, numbers, hashes and the like
    (`identifiers.py`), and what no strip can offer (`may_be_listed`); of the others `size` stay,
    those of the largest shares. A word that the list does not have needs `least_people` who typed
    it. `frequencies` is the list: word -> any number in proportion to how often it is typed. Raises
    `ValueError` if no word is left.
    """
    uses: Counter[str] = Counter()
    owners: Counter[str] = Counter()
    for messages in people:
        typed = Counter(
            word for words in messages for word in words if vocabulary.id_of(word) == OOV
        )
        uses.update({word: min(count, CAP) for word, count in typed.items()})
        owners.update(typed.keys())
    total = max(1, uses.total())
    shares = {w: n / total for w, n in uses.items() if owners[w] >= least_people and _may_stand(w)}
    of_list = _listed(frequencies, vocabulary, shares)
    covered = sum(uses[word] for word in of_list) / total
    return _largest(shares | {word: covered * share for word, share in of_list.items()}, size)


def listed(
    frequencies: Mapping[str, float], vocabulary: Vocabulary, *, size: int, covered: float = COVERED
) -> TailLexicon:
    """The lexicon of `size` words of a public list alone, where nobody's text may be counted.

    The list is taken to have the share `covered` of all OOV words. See `counted`.
    """
    of_list = _listed(frequencies, vocabulary, _NO_LIST)
    return _largest({word: covered * share for word, share in of_list.items()}, size)


def _listed(
    frequencies: Mapping[str, float], vocabulary: Vocabulary, known: Mapping[str, float]
) -> dict[str, float]:
    """Shares, adding up to 1, of the list's words that neither table nor `known` have."""
    found = {
        word: frequency
        for word, frequency in frequencies.items()
        if frequency > 0
        and word not in known
        and vocabulary.id_of(word) == OOV
        and _may_stand(word)
    }
    total = sum(found.values())
    return {word: frequency / total for word, frequency in found.items()}


def _may_stand(word: str) -> bool:
    return (
        len(word) >= _SHORTEST
        and not any(character.isdigit() for character in word)
        and may_be_listed(word)
        and not is_identifier(word)
    )


def _largest(shares: Mapping[str, float], size: int) -> TailLexicon:
    words = sorted(sorted(shares, key=lambda word: (-shares[word], word))[:size])
    words = [word for word in words if shares[word] > 0]
    if not words:
        raise ValueError("no word beyond the table may be offered")
    return of_steps(words, steps_of(np.array([shares[word] for word in words])))


def steps_of(shares: np.ndarray) -> np.ndarray:
    """Shares as a file keeps them, never rounded up: [words] uint8."""
    steps = np.ceil(-STEPS * np.log(shares.astype(np.float64)) - 1e-4)
    return np.clip(steps, 0, 255).astype(np.uint8)


def of_steps(words: Sequence[str], steps: np.ndarray) -> TailLexicon:
    """The lexicon of words in order and of `steps_of` their shares; see `TailLexicon`."""
    return TailLexicon(words, np.exp(-steps.astype(np.float64) / STEPS))
