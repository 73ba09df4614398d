"""The lexicon against counts by hand, and its completions against a sort of all words."""

import collections
import math

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.hybrid_fakes import TAIL, VOCABULARY, hybrid
from tff_keyboard.data.vocabulary import OOV
from tff_keyboard.predictors import tail_lexicon
from tff_keyboard.predictors.tail_lexicon import CAP, TailLexicon

WORDS = st.text("abc", min_size=1, max_size=4)
PEOPLE = st.lists(
    st.lists(st.lists(WORDS | st.sampled_from(["home", "a1"]), max_size=6)), max_size=6
)


def rounded_down(share):
    return math.exp(-min(255, math.ceil(-8 * math.log(share) - 1e-4)) / 8)


@hypothesis.given(PEOPLE, st.integers(1, 3), st.dictionaries(WORDS, st.floats(0.1, 9), max_size=5))
@examples(100)
def test_shares_match_the_definition(people, least, listed):
    uses, owners = collections.Counter(), collections.Counter()
    for messages in people:
        typed = collections.Counter(w for m in messages for w in m if w != "home")
        for word, count in typed.items():
            uses[word] += min(count, CAP)
            owners[word] += 1
    total = uses.total()
    usable = {w for w in [*uses, *listed] if len(w) > 1 and not any(map(str.isdigit, w))}
    common = [w for w in usable if owners[w] >= least]
    of_list = {w: f for w, f in listed.items() if w in usable and w not in common}
    list_uses = sum(uses[w] for w in of_list)
    if of_list and not list_uses:  # one use more, which is half of all if there is no other
        list_uses, total = 1, total + (1 if total else 2)
    expected = {w: uses[w] / total for w in common}
    covered = list_uses / max(1, total)
    for word, frequency in of_list.items():
        expected[word] = covered * frequency / sum(of_list.values())
    expected = {word: share for word, share in expected.items() if share > 0}

    def build():
        return tail_lexicon.counted(
            people, VOCABULARY, size=100, min_clients=least, frequencies=listed
        )

    if not expected:
        with pytest.raises(ValueError, match="no word"):
            build()
        return
    actual = build()
    assert list(actual.words) == sorted(expected)
    for word in actual.words:
        assert actual.share_of(word) == pytest.approx(rounded_down(expected[word]), rel=2e-4)
    assert actual.shares.sum() <= 1.001


def test_keeps_the_largest_shares():
    people = [[["aa", "bb", "bb"]], [["bb", "cc"]], [["cc", "dd"]]]
    actual = tail_lexicon.counted(people, VOCABULARY, size=2, min_clients=1)
    assert actual.words == ("bb", "cc")


def test_word_of_one_user_is_left_out_unless_listed():
    people = [[["secret", "shared"]], [["shared"]]]
    actual = tail_lexicon.counted(people, VOCABULARY, size=9, min_clients=2)
    assert actual.words == ("shared",)
    assert actual.share_of("secret") == 0.0
    listed = tail_lexicon.counted(
        people, VOCABULARY, size=9, min_clients=2, frequencies={"secret": 1.0, "other": 1.0}
    )
    assert listed.words == ("other", "secret", "shared")


def test_words_of_the_list_that_no_user_typed_are_kept():
    """Before, their share was 0, and a list without a typed word was refused."""
    frequencies = {"xa": 3.0, "xb": 1.0, "home": 9.0}
    people = [[["shared", "rare"]], [["shared"]]]
    actual = tail_lexicon.counted(
        people, VOCABULARY, size=9, min_clients=2, frequencies=frequencies
    )
    assert actual.words == ("shared", "xa", "xb")
    expected = {"shared": 2 / 4, "xa": 0.75 / 4, "xb": 0.25 / 4}
    for word, share in expected.items():
        assert actual.share_of(word) == pytest.approx(rounded_down(share), rel=2e-4)
    nothing_unknown = tail_lexicon.counted(
        [[["home"]]], VOCABULARY, size=9, min_clients=2, frequencies=frequencies
    )
    alone = tail_lexicon.listed(frequencies, VOCABULARY, size=9)
    assert nothing_unknown.words == alone.words
    np.testing.assert_array_equal(nothing_unknown.shares, alone.shares)


def test_list_alone_covers_half_of_oov():
    actual = tail_lexicon.listed({"xa": 3.0, "xb": 1.0, "home": 9.0}, VOCABULARY, size=9)
    assert actual.words == ("xa", "xb")
    assert actual.share_of("xa") == pytest.approx(rounded_down(0.375), rel=1e-4)


@hypothesis.given(
    st.dictionaries(WORDS, st.floats(1e-6, 0.01), min_size=1), WORDS, st.integers(1, 4)
)
@examples(100)
def test_completions_have_the_largest_shares_of_a_prefix(shares, prefix, k):
    words = sorted(shares)
    lexicon = TailLexicon(words, np.array([shares[word] for word in words]))
    actual = lexicon.best(prefix, k)
    matching = sorted(
        (w for w in words if w.startswith(prefix)), key=lambda w: -lexicon.share_of(w)
    )
    assert [share for _, share in actual] == [lexicon.share_of(word) for word in matching[:k]]
    assert all(word.startswith(prefix) for word, _ in actual)


@pytest.mark.parametrize(
    ("words", "shares"),
    [
        (["b", "a"], [0.1, 0.1]),
        (["a", "a"], [0.1, 0.1]),
        (["a"], [0.0]),
        (["a"], [1.1]),
        (["a"], []),
        ([""], [0.1]),
        (["<url>"], [0.1]),
        (["a\u202eb"], [0.1]),
    ],
)
def test_rejects_invalid_lexicons(words, shares):
    with pytest.raises(ValueError, match=r"sorted|must be > 0|as many|hidden"):
        TailLexicon(words, np.array(shares))


def test_hybrid_completes_with_the_probability_of_oov():
    plain, tailed = hybrid(), hybrid(tail=TAIL)
    for context in (["how", "are"], ["home"], []):
        unknown = float(plain.without_cache(context)[OOV])
        actual = dict(tailed.suggest(context, "ho", 9))
        for word in ("homely", "homing", "horse"):
            assert actual[word] == pytest.approx(unknown * TAIL.share_of(word), rel=1e-6)
        assert actual["home"] == dict(plain.suggest(context, "ho", 9))["home"]
        assert tailed.suggest(context, "", 9) == plain.suggest(context, "", 9)


def test_word_of_the_owner_gets_both_probabilities():
    tailed = hybrid(tail=TAIL)
    tailed.learn(["homely"])
    own = dict(hybrid(cache=tailed.cache).suggest(["you"], "hom"))["homely"]
    unknown = float(tailed.without_cache(["you"])[OOV])
    both = dict(tailed.suggest(["you"], "hom"))["homely"]
    assert both == pytest.approx(own + unknown * TAIL.share_of("homely"), rel=1e-6)
