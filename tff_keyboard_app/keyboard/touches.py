"""How likely each key is meant by a touch: a Gaussian around the centre of every key.

    P(touch | key) = N(x; centre_x, (sigma width)^2) N(y; centre_y, sigma^2)

A touch is `(x, y)`. The unit of x is the width of a letter's key, from the left edge of the longest
row; the unit of y is the height of a row, from the top of the first row. The rows are those of
`Language.keys`, each in the middle. The space bar is in the fourth row, five keys wide, in the
middle. On the English keys the centres are q (0.5, 0.5), a (1.0, 1.5), z (2.0, 2.5), and of the bar
(5.0, 3.5). A keyboard that has its keys elsewhere gives the centre of the key that was hit, plus
the distance of the touch from it in widths and heights of that key.

Two-dimensional Gaussians for touches, with a width in proportion to the key: Azenkot and Zhai 2012,
"Touch behavior with different postures on soft smartphone keyboards".
"""

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence

from tff_keyboard_app.keyboard.languages import Language
from tff_keyboard_app.keyboard.typed_cache import typed_cache

Touch = tuple[float, float]

SIGMA = 0.2  # of a key; see docs/phone/spelling.md
SPACE = " "
_WIDTH_OF_BAR = 5.0  # keys
_UNLIKELY = 1e-6  # of the typed key; a key that is further away is left out


@dataclasses.dataclass(frozen=True)
class Touches:
    """A typed string and where each of its letters was touched; None for one without a touch."""

    typed: str
    places: tuple[Touch | None, ...]

    def without(self, letter: str) -> "Touches":
        """Returns the touches of the string without a letter."""
        pairs = [pair for pair in zip(self.typed, self.places, strict=True) if pair[0] != letter]
        return Touches("".join(x for x, _ in pairs), tuple(place for _, place in pairs))


def checked(touches: Sequence[Touch | None], text: str) -> tuple[Touch | None, ...]:
    """Returns the touches of the characters after the last white space of a text, as a tuple.

    Raises:
      ValueError: If there are not as many as characters, or one is not two finite numbers.
    """
    letters = len(re.split(r"\s", text)[-1])
    if len(touches) != letters:
        raise ValueError(
            f"`touches` must have one touch for each of the {letters} characters after the last "
            f"white space, got {len(touches)}."
        )
    for touch in touches:
        if touch is not None and (len(touch) != 2 or not all(map(math.isfinite, touch))):
            raise ValueError(f"`touches` must be pairs of finite numbers or None, got {touch}.")
    return tuple(touch if touch is None else (touch[0], touch[1]) for touch in touches)


class TouchModel:
    """Keys of a language and the Gaussians around them.

    Args:
      language: Its keys.
      sigma: Standard deviation of touches, in widths and heights of the meant key; > 0.
    """

    def __init__(self, language: Language, sigma: float = SIGMA):
        if not sigma > 0.0:
            raise ValueError(f"`sigma` must be > 0 keys, got {sigma}.")
        longest = max(map(len, language.keys))
        self._sigma = sigma
        self._keys = {  # x and y of the centre, and the width
            letter: ((longest - len(letters)) / 2 + column + 0.5, row + 0.5, 1.0)
            for row, letters in enumerate(language.keys)
            for column, letter in enumerate(letters)
        }
        self._keys[SPACE] = (longest / 2, len(language.keys) + 0.5, _WIDTH_OF_BAR)
        self.ratios = typed_cache(self._ratios, maxsize=8)

    def _ratios(self, touches: Touches) -> tuple[Mapping[str, float] | None, ...]:
        """Returns P(touch | key) / P(touch | typed key), by key, for each letter.

        A ratio is at most 1, because the typed key is the one that was hit. Keys far from the touch
        are left out, and so is the typed key. None for a letter without touch or key.
        """
        return tuple(
            None if place is None or letter not in self._keys else self._ratios_of(letter, place)
            for letter, place in zip(touches.typed, touches.places, strict=True)
        )

    def _ratios_of(self, letter: str, touch: Touch) -> dict[str, float]:
        """Returns P(touch | key) / P(touch | letter), at most 1, of the keys that are near."""
        typed = self._log_density(letter, touch)
        ratios = {
            key: math.exp(min(0.0, self._log_density(key, touch) - typed))
            for key in self._keys
            if key != letter
        }
        return {key: ratio for key, ratio in ratios.items() if ratio >= _UNLIKELY}

    def _log_density(self, key: str, touch: Touch) -> float:
        """Returns the logarithm of the density of a touch for a key, up to a constant."""
        x, y, width = self._keys[key]
        squares = ((touch[0] - x) / width) ** 2 + (touch[1] - y) ** 2
        return -squares / (2.0 * self._sigma**2) - math.log(width)
