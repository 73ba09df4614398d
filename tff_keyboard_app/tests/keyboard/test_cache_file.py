"""The file of a word cache: exact, private, and replaced as a whole."""

import pytest

from tff_keyboard.predictors.hybrid.word_cache import WordCache
from tff_keyboard.storage.errors import DataError, ProgramError
from tff_keyboard_app.keyboard import cache_file


def learned(messages, half_life=50, floor=0.1):
    """Learns messages, each with its first word kept."""
    cache = WordCache(half_life, floor)
    for message in messages:
        cache.observe(message, [word for word in message[:1] if word])
    return cache


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


def test_forms_of_words_are_saved_and_a_file_without_them_is_read(tmp_path):
    path = tmp_path / "words.cache"
    cache = learned([["see", "anna"]])
    cache_file.save(cache, path)
    assert b"forms" not in path.read_bytes()  # as earlier versions wrote it
    cache.observe(["anna"], forms=["Anna"])
    cache_file.save(cache, path)
    assert b'"forms":{"anna":{"Anna":1}}' in path.read_bytes()
    assert cache_file.load(path) == cache
    cache.forget(["anna"])
    cache_file.save(cache, path)
    assert b"nna" not in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(b'"half_life"', b'"forms":[1],"half_life"'))
    with pytest.raises(cache_file.DamagedCacheError):
        cache_file.load(path)


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
