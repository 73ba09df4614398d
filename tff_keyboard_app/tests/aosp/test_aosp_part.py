"""The word list of given sums: figures by hand, listed words, size limits, and noise."""

import math

import numpy as np
import pytest

from tff_keyboard.data.vocabulary import SPECIAL_WORDS, NormalisationRules, Vocabulary
from tff_keyboard.predictors.tail_lexicon import TailLexicon
from tff_keyboard_app.aosp import aosp_part, combined_file
from tff_keyboard_app.aosp.expected_counts import ExpectedCounts

WORDS = ("i", "the", "home", "shit", "42", "alone", "singapore", "dont")
VOCABULARY = Vocabulary((*SPECIAL_WORDS, *WORDS), NormalisationRules())
ROW = dict(zip(VOCABULARY.words, range(12), strict=True))
FOLLOWING = np.tile(np.arange(4, 12), (12, 1))  # all words behind each


def counts(**bigrams):
    """Returns sums of 200, 100 of them "i". `i_home=50.0` is the expected count of "i home"."""
    unigrams = np.array([0, 0, 20, 10, 100, 40, 10, 5, 5, 5, 3, 2], float)
    sums = np.zeros([12, 8])
    for name, value in bigrams.items():
        before, word = name.split("_")
        sums[ROW[before], ROW[word] - 4] = value
    typists = np.array([0, 0, 0, 0, 9, 9, 9, 9, 9, 1, 9, 9])
    return ExpectedCounts(FOLLOWING, unigrams, sums, 9, typists)


def build(found, **options):
    facts = {"date": 7, "min_clients": 2}
    return aosp_part.build(found, VOCABULARY, **(facts | options))


def scale(p):
    """Returns AOSP's scale, on which each step is a division by 1.15."""
    return round(255 + math.log(p) / math.log(1.15))


def test_figures_are_shares_of_the_sums_on_aosps_scale():
    actual = build(counts(i_home=50.0, home_the=6.0), forms=["Singapore"])
    assert actual.words == {
        "I": scale(0.5),
        "the": scale(0.2),
        "home": scale(0.05),
        "Singapore": scale(0.015),
        "dont": scale(0.01),  # "don't" is another word, not a form of this one
        "shit": 0,
    }  # no "42", and none of one person alone
    assert actual.bigrams == {"I": {"home": scale(0.5)}, "home": {"the": scale(0.6)}}
    assert actual.header["dictionary"] == "main:en"
    assert actual.header["date"] == "7"
    assert combined_file.parse(actual.to_bytes(["a remark"]).decode()) == actual


def test_words_of_one_user_are_not_listed():
    actual = build(counts(i_alone=90.0, alone_the=5.0, i_the=30.0))
    assert "alone" not in actual.to_bytes().decode()
    assert "alone" in build(counts(), min_clients=1).words
    with pytest.raises(ValueError, match="no word was typed by enough clients"):
        build(counts(), min_clients=10)


def test_blocked_words_are_known_and_not_suggested():
    actual = build(counts(i_shit=60.0, shit_the=4.0))
    assert actual.words["shit"] == 0
    assert not actual.bigrams


def test_the_likeliest_three_come_first_then_what_a_bigram_adds():
    sums = counts(i_the=31.0, i_home=30.0, i_singapore=3.0, i_dont=1.2, home_the=2.2)
    listed = [build(sums, max_bigrams=n).bigrams for n in (1, 2, 3, 4, 9)]
    behind_i = {"home": scale(0.3), "the": scale(0.31), "singapore": scale(0.03)}
    assert listed[0] == {"I": {"home": behind_i["home"]}}  # 13 steps 30 times, "the" 4 steps
    assert listed[1] == {"I": {word: behind_i[word] for word in ("home", "the")}}
    assert listed[2] == {"I": behind_i}
    assert listed[3] == {"I": behind_i, "home": {"the": scale(0.22)}}  # little new: a strip's place
    assert listed[4] == listed[3]  # "dont" is a fourth, and a step is too little


def test_a_list_fits_its_bytes():
    sums = counts(i_the=31.0, i_home=30.0, home_the=6.0, the_home=20.0)
    whole = build(sums)
    size = len(whole.to_bytes())
    assert build(sums, max_bytes=size) == whole
    smaller = build(sums, max_bytes=size - 1)
    assert smaller.words == whole.words
    assert smaller.num_bigrams == whole.num_bigrams - 1
    with pytest.raises(ValueError, match="words alone take more than 50 bytes"):
        build(sums, max_bytes=50)


def test_lexicon_words_share_the_oov_count():
    tail = TailLexicon(["aloha", "shits", "the"], np.array([0.4, 0.1, 0.2]))
    actual = build(counts(), tail=tail)
    assert actual.words["aloha"] == scale(0.05 * 0.4)
    assert actual.words["the"] == scale(0.2)
    assert actual.words["shits"] == 0


def test_a_word_that_the_model_does_not_expect_is_kept():
    sums = counts()
    sums.unigrams[ROW["dont"]] = 0.0
    assert build(sums).words["dont"] == scale(0.5 / (200 - 2 + 0.5))
    assert build(counts(), min_clients=0).words["alone"] == scale(0.025)
