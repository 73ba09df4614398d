"""The cache against its definition in float64, and exact forgetting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard.predictors.hybrid.word_cache import EDGE, LONGEST_WORD, UNIT, WordCache

words = st.sampled_from(["a", "b", "c", "d", "<url>", "x" * (LONGEST_WORD + 1), "", "é"])
messages = st.lists(st.lists(words, max_size=8), max_size=20)


def learned(messages, half_life=50, floor=0.1):
    """Learns messages, each with its first word kept, and every second one in capitals."""
    cache = WordCache(half_life, floor)
    for number, message in enumerate(messages):
        forms = [word.upper() if word and number % 2 else word for word in message]
        cache.observe(message, [word for word in message[:1] if word], forms)
    return cache


def floats(counts):
    return {word: count / UNIT for word, count in counts.items()}


def test_counts_are_sums_of_decayed_occurrences():
    rng = np.random.default_rng(0)
    text = [[f"w{int(i)}" for i in 9 * rng.random(rng.integers(0, 7)) ** 2] for _ in range(40)]
    half_life = 30
    cache = learned(text, half_life, floor=1e-3)
    events = [event for message in text for event in [None, *message, EDGE]]
    ages, age = [], 0
    for event in reversed(events):
        ages.append(age)
        age += event is not None  # None marks a start, which does not age the counts
    ages.reverse()
    expected, pairs = {}, {}
    for position, event in enumerate(events):
        if event is None:
            continue
        weight = 2 ** (-ages[position] / half_life)
        expected[event] = expected.get(event, 0) + weight
        before = events[position - 1] if events[position - 1] is not None else EDGE
        pairs[before, event] = pairs.get((before, event), 0) + weight
    actual = floats(cache.words)
    assert actual == pytest.approx({w: c for w, c in expected.items() if w in actual}, rel=1e-3)
    assert all(w in actual for w, c in expected.items() if c > 2e-3)
    rows = {(v, w): c / UNIT for v, row in cache.pairs.items() for w, c in row.items()}
    assert rows == pytest.approx({p: c for p, c in pairs.items() if p in rows}, rel=5e-3)
    assert len(rows) > 20
    assert cache.total == pytest.approx(sum(actual.values()))


@examples(200)
@given(text=messages, gone=st.sets(st.sampled_from(["a", "b", "é", "zzz", EDGE])))
def test_forgetting_equals_never_having_seen(text, gone):
    cache = learned(text, half_life=6, floor=0.2)
    cache.forget(gone)
    never = learned([[None if w in gone else w for w in m] for m in text], half_life=6, floor=0.2)
    assert cache == never
    assert cache.total == never.total
    # The caches stay equal, so nothing hidden was kept.
    for later in (["a", "b"], ["d", "zzz", "a"]):
        cache.observe(later)
        never.observe(later)
    assert cache == never


def test_forms_are_counted_from_the_first_capital_on():
    cache = WordCache()
    for form in ("kagi", "Kagi", None, "kagi", "KAGI", "Kagi"):
        cache.observe(["use", "kagi"], forms=["use", form])
    assert cache.forms == {"kagi": {"Kagi": 2, "kagi": 1, "KAGI": 1}}
    assert (cache.form("kagi"), cache.form("use"), cache.form("zzz")) == ("Kagi", "use", "zzz")
    cache.observe(["kagi"], forms=["kagi"])
    assert cache.form("kagi") == "Kagi"  # of two, the one with a capital
    cache.observe(["kagi"], forms=["kagi"])
    assert cache.form("kagi") == "kagi"


def test_a_form_ends_with_its_word():
    cache = WordCache(half_life=2, floor=0.5)
    cache.observe(["see", "anna"], forms=["see", "Anna"])
    assert cache.forms == {"anna": {"Anna": 1}}
    cache.observe(["see"] * 9)
    assert "anna" not in cache.uses
    assert cache.forms == {}


@examples(30)
@given(text=messages)
def test_restored_content_is_equal(text):
    cache, restored = learned(text), WordCache(50, 0.1)
    restored.restore(cache.words, cache.pairs, cache.uses, cache.exempt_words, cache.forms)
    assert restored == cache


@pytest.mark.parametrize(
    "forms",
    [
        {"anna": {"Anna": 2}},  # of one use
        {"anna": {"Anna": 0}},
        {"anna": {"Anna": True}},
        {"anna": {}},
        {"anna": {"Annabel": 1}},
        {"anna": {"4nn4": 1}},
        {"bob": {"Bob": 1}},  # no word of the cache
    ],
)
def test_forms_that_no_use_explains_are_refused(forms):
    cache = learned([["see", "anna"]])
    with pytest.raises(ValueError, match="form of a word"):
        WordCache(50, 0.1).restore(cache.words, cache.pairs, cache.uses, (), forms)


@examples(30)
@given(text=messages)
def test_forgetting_all_is_a_new_cache(text):
    cache = learned(text)
    cache.forget_all()
    assert cache == WordCache(50, 0.1)
    assert cache.total == 0


def test_gaps_and_masks_make_no_pairs():
    cache = learned([["a", None, "b", "<url>", "c"]])
    assert set(cache.words) == {"a", "b", "c", EDGE}
    assert {first: set(row) for first, row in cache.pairs.items()} == {EDGE: {"a"}, "c": {EDGE}}


def test_uses_do_not_decay_while_the_word_is_remembered():
    cache = WordCache(half_life=10, floor=0.25)
    cache.observe(["once", "twice", "twice"], exempt_words=["once", "elsewhere"])
    cache.observe(["often"] * 18)
    assert "once" not in cache.uses
    assert cache.uses["twice"] == 2
    assert cache.exempt_words == set()  # removed with the word
    cache.observe(["often"], exempt_words=["often"])
    assert (cache.uses["often"], cache.exempt_words) == (19, {"often"})
    cache.forget(["often"])
    assert (cache.uses, cache.exempt_words) == ({"twice": 2}, set())


@pytest.mark.parametrize("half_life, floor", [(1, 0.5), (20, 0.125), (200, 0.5)])
def test_size_is_bounded_for_any_text(half_life, floor):
    cache = WordCache(half_life, floor)
    bound = 1.45 * half_life / floor + 2
    fresh = iter(range(10**9))
    for _ in range(200):
        cache.observe([f"new{next(fresh)}" for _ in range(30)])
        assert len(cache.words) <= bound
        assert sum(len(row) for row in cache.pairs.values()) <= bound
    cache.observe([f"long{i}" for i in range(20_000)])
    assert len(cache.words) <= bound


def test_old_words_are_dropped():
    cache = learned([["once"]], half_life=10, floor=0.25)
    cache.observe(["often"] * 15)
    assert "once" in cache.words
    cache.observe(["often"] * 15)
    assert "once" not in cache.words
    assert "often" in cache.words


@pytest.mark.parametrize("arguments", [(0, 0.1), (10, 0.0), (10, 9e-7), (10, 1.0)])
def test_rejects_parameters_out_of_range(arguments):
    with pytest.raises(ValueError, match="`half_life` must be"):
        WordCache(*arguments)
