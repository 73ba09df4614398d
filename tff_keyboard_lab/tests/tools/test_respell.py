"""Decides which strings are words: dictionaries, names, slang, and slips of frequent words."""

import numpy as np
import pytest

from tff_keyboard.predictors.tail_lexicon import TailLexicon
from tff_keyboard_lab.tools import respell

KNOWN = {"receive", "London", "NATO", "bread"}


@pytest.fixture(autouse=True)
def _hunspell(monkeypatch):
    monkeypatch.setattr(respell, "accepted", lambda words, _: set(words) & KNOWN)


def test_a_word_is_known_in_any_case_from_a_list_or_as_slang():
    strings = {"receive", "london", "nato", "tbh", "colour", "recieve", "ankara"}
    actual = respell.dictionary_of(strings, ["en"], {"colour", "Ankara"}, frozenset({"tbh"}), "en")
    assert actual.words == strings - {"recieve"}
    assert actual.names == {"london", "ankara"}


def test_capitals_are_those_of_the_language():
    actual = respell.dictionary_of({"istanbul"}, ["tr"], {"İstanbul"}, frozenset(), "tr")
    assert actual.names == {"istanbul"}


def test_a_slip_is_near_a_much_more_frequent_word():
    frequencies = {"receive": 1e-4, "recieve": 1e-7, "recieving": 1e-7, "zbigniew": 1e-8}
    doubted = respell.slips_among(
        {"recieve", "zbigniew", "bread"}, frozenset({"receive"}), frequencies, "en"
    )
    assert doubted == {"recieve": True}
    often = frequencies | {"recieve": 1e-4}
    assert respell.slips_among({"recieve"}, frozenset({"receive"}), often, "en") == {}


def test_a_lexicon_keeps_shares_and_has_the_most_frequent_words():
    old = TailLexicon(["alpaca", "beta"], np.array([0.02, 0.01]))
    frequencies = {"alpaca": 2e-6, "beta": 1e-6, "gamma": 4e-6, "delta": 1e-8}
    actual = respell.lexicon_of(["alpaca", "gamma", "delta"], frequencies, old, 2)
    assert actual.words == ("alpaca", "gamma")
    assert actual.share_of("gamma") == pytest.approx(0.04, rel=0.13)  # steps of e^(1/8)
    assert actual.share_of("alpaca") == pytest.approx(0.02, rel=0.13)
