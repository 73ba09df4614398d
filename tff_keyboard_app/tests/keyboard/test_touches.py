"""Touches of keys: the Gaussian against NumPy, and what corrections make of them."""

import math
import pathlib

import numpy as np
import pytest

from tff_keyboard_app.keyboard.languages import LANGUAGES
from tff_keyboard_app.keyboard.slip_costs import SlipCosts, slips_by_hand
from tff_keyboard_app.keyboard.strip import AppKeyboard
from tff_keyboard_app.keyboard.touches import SIGMA, SPACE, Touches, TouchModel
from tff_keyboard_app.keyboard.typo_channel import NO_SLIP, TypoChannel
from tflite_export.runtime.hybrid_keyboard import open_keyboard

ENGLISH = LANGUAGES["en"]
CENTRES = {
    letter: (x + column, y)
    for letters, x, y in [("qwertyuiop", 0.5, 0.5), ("asdfghjkl", 1.0, 1.5), ("zxcvbnm", 2.0, 2.5)]
    for column, letter in enumerate(letters)
}


def touches_of(word, **moved):
    """Touches at the centres of the keys, but for the letters that are `moved` by (x, y)."""
    return [
        tuple(np.add(CENTRES[letter], moved[letter]).tolist())
        if letter in moved
        else CENTRES[letter]
        for letter in word
    ]


def ratios(letter, touch, sigma=SIGMA):
    return TouchModel(ENGLISH, sigma).ratios(Touches(letter, (touch,)))[0]


def numpy_density(key, touch, sigma):
    (x, y), width = (CENTRES[key], 1.0) if key != SPACE else ((5.0, 3.5), 5.0)
    deviations = np.array([sigma * width, sigma])
    standard = (np.array(touch) - [x, y]) / deviations
    return np.prod(np.exp(-(standard**2) / 2) / (np.sqrt(2 * np.pi) * deviations))


@pytest.mark.parametrize("sigma", [0.2, 0.5])
@pytest.mark.parametrize(("letter", "touch"), [("g", (5.3, 1.6)), ("b", (6.1, 2.98))])
def test_matches_numpy(letter, touch, sigma):
    actual = ratios(letter, touch, sigma)
    typed = numpy_density(letter, touch, sigma)
    expected = {key: numpy_density(key, touch, sigma) / typed for key in [*CENTRES, SPACE]}
    assert set(actual) == {k for k, x in expected.items() if x >= 1e-6 and k != letter}
    for key, ratio in actual.items():
        assert ratio == pytest.approx(min(1.0, expected[key]), rel=1e-9)


def test_at_the_exact_centre_only_distance_counts():
    near = ratios("g", CENTRES["g"])
    one_key = math.exp(-1 / (2 * SIGMA**2))
    assert near["f"] == pytest.approx(one_key)
    assert near["h"] == pytest.approx(one_key)
    assert "q" not in near


def test_on_the_border_both_keys_are_equally_likely():
    assert ratios("g", (5.5, 1.5))["h"] == pytest.approx(1.0)


def test_very_wide_gaussians_cannot_tell_keys_apart():
    wide = ratios("g", CENTRES["g"], sigma=1e6)
    assert set(wide) == {*CENTRES, SPACE} - {"g"}
    assert all(ratio == pytest.approx(1.0) for key, ratio in wide.items() if key != SPACE)
    assert wide[SPACE] == pytest.approx(1 / 5)  # as much over a key of five times the width


def test_letters_without_touch_or_key_say_nothing():
    places = (None, (2.5, 0.5), CENTRES["a"])
    assert TouchModel(ENGLISH).ratios(Touches("q3a", places))[:2] == (None, None)


def test_touches_without_a_letter():
    apart = Touches("do'nt", ((3.0, 1.5), (8.5, 0.5), None, (7.0, 2.5), None))
    assert apart.without("'") == Touches("dont", ((3.0, 1.5), (8.5, 0.5), (7.0, 2.5), None))


@pytest.mark.parametrize("sigma", [0.0, -1.0, math.nan])
def test_sigma_is_positive(sigma):
    with pytest.raises(ValueError, match="`sigma`"):
        TouchModel(ENGLISH, sigma)


def test_the_channel_takes_touches_for_neighbours():
    channel = TypoChannel(ENGLISH)
    touched = TouchModel(ENGLISH).ratios(Touches("st", tuple(touches_of("st", s=(-0.45, 0.0)))))
    alone, with_touches = dict(channel.meant_words("st")), dict(channel.meant_words("st", touched))
    assert with_touches["at"] == pytest.approx(NO_SLIP * touched[0]["a"])
    assert with_touches["at"] > 10 * alone["at"]
    assert with_touches.get("dt", 0.0) < alone["dt"] / 100
    assert with_touches["sat"] == alone["sat"]
    untouched = [None, None]
    assert list(channel.meant_words("st", untouched)) == list(channel.meant_words("st"))


def test_costs_are_lowered_by_touches():
    costs = SlipCosts(slips_by_hand(ENGLISH), set(CENTRES))
    words = costs.coded(["cat", "cst", "cot"])
    touched = TouchModel(ENGLISH).ratios(Touches("cst", tuple(touches_of("cst", s=(-0.5, 0.0)))))
    alone, with_touches = costs.costs("cst", words), costs.costs("cst", words, touched)
    assert alone[0] > 4.0
    np.testing.assert_allclose(with_touches, [0.0, 0.0, alone[2]], atol=1e-6)


@pytest.fixture(scope="module", name="keyboard")
def _keyboard():
    return AppKeyboard(open_keyboard(pathlib.Path("models/base/keyboard.tflite")))


def made(strip):
    return strip.correction.word if strip.correction is not None else None


@pytest.mark.parametrize(
    ("text", "moved", "becomes"),
    [
        ("the cst", {"s": (-0.48, 0.0)}, "cat"),
        ("he wsnt", {"s": (-0.1, -0.48)}, "went"),
        ("i want to ho", {"h": (-0.45, 0.0)}, "go"),
        ("i wantbto", {"b": (0.0, 0.5)}, "want to"),
        ("i want to ho", {}, None),
        ("this is s", {"s": (-0.48, 0.0)}, "a"),
        ("this is s", {}, None),
        ("hello how much wouls", {"s": (0.45, 0.0)}, "would"),  # no form of a word
        ("she wants", {"s": (0.1, 0.0)}, None),
    ],
)
def test_a_touch_near_another_key_decides(keyboard, text, moved, becomes):
    touches = touches_of(text.split()[-1], **moved)
    assert made(keyboard.keyboard_strip(text, touches=touches)) == becomes


@pytest.mark.parametrize("text", ["the cst", "how sre", "top-wel", "i dont", "see you "])
def test_without_places_the_strip_is_what_it_is_without_touches(keyboard, text):
    word = "" if text.endswith(" ") else text.split()[-1]
    plain = keyboard.keyboard_strip(text)
    strip = keyboard.keyboard_strip(text, touches=[None] * len(word))
    assert (strip.slots, strip.correction) == (plain.slots, plain.correction)


@pytest.mark.parametrize(
    ("touches", "message"),
    [
        ([(3.0, 1.5)], "each of the 3 characters .* got 1"),
        ([], "each of the 3 characters .* got 0"),
        ([(3.0, math.nan)] * 3, r"finite numbers or None, got \(3.0, nan\)"),
        ([(math.inf, 1.5)] * 3, "finite numbers or None"),
        ([(3.0,)] * 3, "finite numbers or None"),
    ],
)
def test_bad_touches(keyboard, touches, message):
    with pytest.raises(ValueError, match=f"`touches` must .*{message}") as raised:
        keyboard.keyboard_strip("the cst", touches=touches)
    assert "\n" not in str(raised.value)
