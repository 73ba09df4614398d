"""The cache against its definition in float64, and exact forgetting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard.predictors.hybrid import cache_file
from tff_keyboard.predictors.hybrid.word_cache import EDGE, LONGEST_WORD, UNIT, WordCache
from tff_keyboard.storage.errors import DataError, ProgramError

words = st.sampled_from(["a", "b", "c", "d", "<url>", "x" * (LONGEST_WORD + 1), "", "é"])
messages = st.lists(st.lists(words, max_size=8), max_size=20)


def learned(messages, half_life=50, floor=0.1):
    """Learns messages, each with its first word kept."""
    cache = WordCache(half_life, floor)
    for message in messages:
        cache.observe(message, [word for word in message[:1] if word])
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
    for place, event in enumerate(events):
        if event is None:
            continue
        weight = 2 ** (-ages[place] / half_life)
        expected[event] = expected.get(event, 0) + weight
        before = events[place - 1] if events[place - 1] is not None else EDGE
        pairs[before, event] = pairs.get((before, event), 0) + weight
    found = floats(cache.words)
    assert found == pytest.approx({w: c for w, c in expected.items() if w in found}, rel=1e-3)
    assert all(w in found for w, c in expected.items() if c > 2e-3)
    rows = {(v, w): c / UNIT for v, row in cache.pairs.items() for w, c in row.items()}
    assert rows == pytest.approx({p: c for p, c in pairs.items() if p in rows}, rel=5e-3)
    assert len(rows) > 20
    assert cache.total == pytest.approx(sum(found.values()))


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
    cache.observe(["once", "twice", "twice"], kept=["once", "elsewhere"])
    cache.observe(["often"] * 18)
    assert "once" not in cache.uses
    assert cache.uses["twice"] == 2
    assert cache.kept == set()  # removed with the word
    cache.observe(["often"], kept=["often"])
    assert (cache.uses["often"], cache.kept) == (19, {"often"})
    cache.forget(["often"])
    assert (cache.uses, cache.kept) == ({"twice": 2}, set())


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


def test_file_round_trip_and_mode(tmp_path):
    cache = learned([["a", "é😀", "b"], ["a"]])
    path = tmp_path / "words.cache"
    path.write_text("older")
    path.chmod(0o644)
    cache_file.save(cache, path)
    assert cache_file.load(path) == cache
    assert path.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["words.cache"]
    first = path.read_bytes()
    forgotten = learned([["a", "secret", "é😀"], ["secret"]])
    forgotten.forget(["secret"])
    cache_file.save(forgotten, path)
    assert b"secret" not in path.read_bytes()
    cache_file.save(learned([["a", "é😀", "b"], ["a"]]), path)
    assert path.read_bytes() == first


@pytest.mark.parametrize("half_life", ["1e400", "NaN", "Infinity", "1e30", '"300"', "9" * 400])
def test_invalid_half_life_in_a_file_is_one_line(tmp_path, half_life):
    path = tmp_path / "words.cache"
    path.write_text(
        f'{cache_file.FORMAT}\n{{"half_life":{half_life},"floor":0.02,"words":{{}},"pairs":{{}},'
        '"uses":{},"kept":[]}\n'
    )
    cache, problem = cache_file.load_or_fresh(path)
    assert cache == WordCache()
    assert "not a complete word cache" in problem


def test_cache_of_another_version_is_an_error(tmp_path):
    path = tmp_path / "words.cache"
    path.write_text("tff-keyboard word cache 1\n{}\n")
    with pytest.raises(DataError, match="another version wrote"):
        cache_file.load_or_fresh(path)


def test_words_that_must_not_be_learnt_are_dropped_from_a_file(tmp_path):
    cache = learned([["my", "hunter2", "at", "7"], ["hunter2"]])
    cache_file.save(cache, tmp_path / "words.cache")
    assert cache_file.load(tmp_path / "words.cache") == learned([["my", None, "at", None], [None]])


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "words.cache"
    cache_file.save(learned([["a"]]), path)
    before = path.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(ProgramError, match="No space"):
        cache_file.save(learned([["b"]]), path)
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_link_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "words.cache").symlink_to(victim)
    cache_file.save(learned([["a"]]), tmp_path / "words.cache")
    assert victim.read_text() == "precious"


GOOD = '{"half_life":50,"floor":0.1,"words":{"a":1048576},"pairs":{},"uses":{"a":1},"kept":["a"]}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "[" * 100_000,
        GOOD[:-1],
        GOOD.replace("50", "0"),
        GOOD.replace("50", '"50"'),
        GOOD.replace("0.1", "NaN"),
        GOOD.replace("1048576", "-1"),
        GOOD.replace("1048576", "1.5"),
        GOOD.replace("1048576", "true"),
        GOOD.replace("1048576", str(10**15)),
        GOOD.replace('"a"', '"<url>"'),
        GOOD.replace('"pairs":{}', '"pairs":{"a":{"b":1048576}}'),
        GOOD.replace('"pairs":{}', '"pairs":{"a":{}}'),
        GOOD.replace('"pairs":{}', '"pairs":{"<x>":{"a":1048576}}'),
        GOOD.replace('"pairs":{}', '"pairs":7'),
        GOOD.replace('{"a":1}', '{"a":0}'),
        GOOD.replace('{"a":1}', '{"a":true}'),
        GOOD.replace('{"a":1}', '{"a":1,"b":1}'),
        GOOD.replace('{"a":1}', "{}"),
        GOOD.replace('["a"]', '["b"]'),
        GOOD.replace('["a"]', "7"),
    ],
)
def test_a_damaged_or_hostile_file_is_refused(tmp_path, text):
    path = tmp_path / "words.cache"
    path.write_text(f"{cache_file.FORMAT}\n{GOOD}\n")
    assert cache_file.load(path).words == {"a": 1048576}
    path.write_text(f"{cache_file.FORMAT}\n{text}\n")
    with pytest.raises(DataError, match="not a complete word cache"):
        cache_file.load(path)


def test_a_missing_or_huge_file_is_refused(tmp_path, monkeypatch):
    with pytest.raises(DataError, match="cannot be read"):
        cache_file.load(tmp_path / "none")
    monkeypatch.setattr(cache_file, "MAX_BYTES", 50)
    (tmp_path / "huge").write_text(f"{cache_file.FORMAT}\n{GOOD}\n")
    with pytest.raises(DataError, match="larger than 50 bytes"):
        cache_file.load(tmp_path / "huge")


def test_damaged_cache_is_reported_and_replaced_by_a_new_one(tmp_path):
    path = tmp_path / "words.cache"
    assert cache_file.load_or_fresh(path) == (WordCache(), None)
    cache_file.save(learned([["a"]]), path)
    assert cache_file.load_or_fresh(path) == (learned([["a"]]), None)
    path.write_text(f"{cache_file.FORMAT}\n{GOOD[:-9]}")
    fresh, problem = cache_file.load_or_fresh(path)
    assert fresh == WordCache()
    assert "not a complete word cache" in problem


@pytest.mark.parametrize("content", [b"my notes", b"\xff\xfe\n", b"tff-keyboard word cache 1\n"])
def test_other_files_are_rejected_and_kept(content, tmp_path):
    path = tmp_path / "notes"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"first line is not .* The file is unchanged"):
        cache_file.load_or_fresh(path)
    assert path.read_bytes() == content
    with pytest.raises(DataError, match="not a file"):
        cache_file.load_or_fresh(tmp_path)
    with pytest.raises(DataError, match="not a file"):
        cache_file.load(tmp_path)
