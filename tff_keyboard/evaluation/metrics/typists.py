"""What a strip is worth to a typist who pays for looking at it: expected keys and seconds.

Keystrokes saved (`keystrokes.py`) are an upper bound: those of a typist who sees every strip at
once. Here a typist of a word of L characters, which the strip offers from t typed characters on,

    looks at a strip with probability q, which takes `look` seconds,
    takes the word that is there with probability a (by its place on the strip of next words, the
        mean of the places behind typed characters, where the place is not kept), by one tap,
    types the next character otherwise, with probability e a wrong one, which costs two keys more,
    and ends the word with a space, which a tap brings along.

A word that is on the strip stays on it as more is typed, so with s = 1 - q a the expectations are
geometric sums. Plain typing is (L (1 + 2 e) + 1) keys.

The three typists are assumptions that span a band: 0.33 seconds a key are the 36 words a minute of
Palin et al. 2019 (MobileHCI); that looking may cost more than a suggestion saves is Quinn & Zhai
2016 (A cost-benefit study of text entry suggestion interaction, CHI).
"""

import dataclasses
from typing import NamedTuple

import numpy as np


@dataclasses.dataclass(frozen=True)
class Typist:
    """How a person uses a strip."""

    looks: float  # probability q of looking at a strip, in [0, 1]
    look_seconds: float  # seconds of a look
    accepts: tuple[float, float, float]  # a at places 1, 2, 3 of the strip, in [0, 1]
    key_seconds: float = 0.33  # seconds of a key, and of the tap
    errors: float = 0.04  # e, wrong characters a typed one


TYPISTS = {
    "keen": Typist(looks=1.0, look_seconds=0.1, accepts=(1.0, 1.0, 1.0)),
    "typical": Typist(looks=0.5, look_seconds=0.25, accepts=(0.9, 0.8, 0.7)),
    "reluctant": Typist(looks=0.2, look_seconds=0.45, accepts=(0.8, 0.5, 0.4)),
}


class Effort(NamedTuple):
    """Expected effort for each word, [n] float64 each."""

    keys: np.ndarray  # keys and taps, the space included
    seconds: np.ndarray  # seconds for keys, taps and looks


def plain(lengths: np.ndarray, typist: Typist) -> Effort:
    """Without a strip; nothing where the length in characters is 0: ends of messages and masks."""
    keys = np.where(lengths > 0, lengths * (1 + 2 * typist.errors) + 1, 0.0)
    return Effort(keys, keys * typist.key_seconds)


def with_strip(typed: np.ndarray, lengths: np.ndarray, ranks: np.ndarray, typist: Typist) -> Effort:
    """Effort with a strip, for words of `lengths` characters, 0 for ends of messages and masks.

    `typed` [n] are the characters until a word is offered, its length where it never is; `ranks`
    [n] are places on the strip of next words, from 0, and count where `typed` is 0.
    """
    lengths = np.asarray(lengths, np.float64)
    typed = np.minimum(np.asarray(typed, np.float64), lengths)
    offers = lengths - typed  # strips with the word on them
    accepts = np.array(typist.accepts)
    later = 1 - typist.looks * float(accepts.mean())  # goes on typing, at one strip
    place = np.clip(ranks, 0, len(accepts) - 1)
    first = np.where(typed == 0, 1 - typist.looks * accepts[place], later)
    offered = offers > 0
    typed_on = np.where(offered, first * _geometric(later, offers), 0.0)
    strips = typed + np.where(offered, 1 + first * _geometric(later, offers - 1), 0.0)
    characters = typed + typed_on
    is_word = lengths > 0
    # A tap, or a space: one key either way.
    keys = np.where(is_word, characters * (1 + 2 * typist.errors) + 1, 0.0)
    looks = np.where(is_word, strips * typist.looks, 0.0)
    return Effort(keys, keys * typist.key_seconds + looks * typist.look_seconds)


def _geometric(ratio: float, terms: np.ndarray) -> np.ndarray:
    """1 + ratio + ... of as many terms, none for a negative number."""
    terms = np.maximum(terms, 0.0)
    return terms if ratio == 1 else (1 - ratio**terms) / (1 - ratio)
