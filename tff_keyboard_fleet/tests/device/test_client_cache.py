import json
import sqlite3
import stat

import pytest

from tff_keyboard.storage.errors import DataError, ProgramError
from tff_keyboard_fleet.device import cache as caches
from tff_keyboard_fleet.device.cache import ClientCache, Example

DAY = 86_400.0


@pytest.fixture
def cache(tmp_path):
    cache = ClientCache(tmp_path / "cache.db")
    yield cache
    cache.close()


def texts(cache):
    return [text for _, text in cache.newest(0)]


def test_only_the_owner_may_read_it(cache, tmp_path):
    assert stat.S_IMODE((tmp_path / "cache.db").stat().st_mode) == 0o600


def test_newest_come_in_the_order_typed(cache):
    for day, word in enumerate(["one", "two", "three"]):
        cache.add([Example(text=word)], now=day * DAY, max_per_category=9)
    assert texts(cache) == ["one", "two", "three"]
    assert [text for _, text in cache.newest(2)] == ["two", "three"]


def test_each_category_keeps_its_newest(cache):
    for number in range(5):
        chat, web = Example(text=f"chat {number}"), Example(text=f"web {number}", category="web")
        cache.add([chat, web], now=number, max_per_category=2)
    assert texts(cache) == ["chat 3", "web 3", "chat 4", "web 4"]


def test_old_examples_are_deleted(cache):
    for day in (0, 10, 20):
        cache.add([Example(text=f"day {day}")], now=day * DAY, max_per_category=9)
    cache.remove_old(now=25 * DAY, ttl_days=15, max_per_category=9, is_clock_right=False)
    assert texts(cache) == ["day 10", "day 20"]


def test_an_example_of_the_future_is_not_kept_longer(cache):
    """It was typed while the clock was a year ahead."""
    cache.add([Example(text="ahead")], now=365 * DAY, max_per_category=9)
    for day, left in ((0, ["ahead"]), (14, ["ahead"]), (16, [])):
        cache.remove_old(now=day * DAY, ttl_days=15, max_per_category=9, is_clock_right=True)
        assert texts(cache) == left


def test_a_clock_that_is_behind_for_a_while_makes_no_text_old(cache):
    cache.add([Example(text="today")], now=9000 * DAY, max_per_category=9)
    for day, is_right in ((3, False), (9000, False), (9000, True), (9014, True)):
        cache.remove_old(now=day * DAY, ttl_days=15, max_per_category=9, is_clock_right=is_right)
        assert texts(cache) == ["today"]
    cache.remove_old(now=9016 * DAY, ttl_days=15, max_per_category=9, is_clock_right=False)
    assert texts(cache) == []


def test_deleted_text_is_overwritten_in_the_file(cache, tmp_path):
    cache.add([Example(text="a secret phrase")] * 50, now=0, max_per_category=99)
    assert b"secret phrase" in (tmp_path / "cache.db").read_bytes()
    cache.delete([number for number, _ in cache.newest(0)])
    cache.delete([1])  # gone already
    assert len(cache) == 0
    assert b"secret phrase" not in (tmp_path / "cache.db").read_bytes()


def test_a_number_is_not_given_twice(cache):
    """If ids were reused, a kill between use and deletion could delete text typed since."""
    cache.add([Example(text="used")], now=0, max_per_category=9)
    [(used, _)] = cache.newest(0)
    cache.delete([used])
    cache.add([Example(text="typed since")], now=1, max_per_category=9)
    cache.delete([used])
    assert texts(cache) == ["typed since"]


def test_recall_of_the_decoder(cache):
    shown = [("see", ["i", "see", "the"]), ("you", ["you", "the", "it"]), ("gwen", ["to", "at"])]
    cache.add([Example(text="see you gwen", candidates=shown)], now=0, max_per_category=9)
    cache.add([Example(text="without")], now=0, max_per_category=9)
    recall = cache.decoder_recall()
    assert (recall.words, recall.hits) == (3, {1: 1, 3: 2})
    assert str(recall) == "decoder: top-1 33.33 %, top-3 66.67 % of 3 words"


def test_without_candidates(cache):
    assert cache.decoder_recall().hits == {1: 0, 3: 0}


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '{"text": ""}',
        '{"text": 3}',
        '{"text": "secret", "category": "email"}',
        '{"text": "secret", "time": 3}',
        '{"text": "secret", "candidates": [["see", "you"], 3]}',
        '{"text": "secret", "candidates": {"see": 3}}',
    ],
)
def test_invalid_line_is_named_and_not_quoted(line, tmp_path):
    path = tmp_path / "typed.jsonl"
    path.write_text(f'{{"text": "ok"}}\n{line}\n')
    with pytest.raises(DataError, match="line 2: not a valid example") as error:
        caches.read_typed(path)
    assert "secret" not in str(error.value)


def test_typed_lines(tmp_path):
    path = tmp_path / "typed.jsonl"
    rows = [{"text": "ok"}, {"text": "hi", "category": "web", "candidates": [["hi", ["ok"]]]}]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert [e.category for e in caches.read_typed(path)] == ["chat", "web"]


def test_other_file_is_not_a_cache(tmp_path):
    (tmp_path / "cache.db").write_bytes(b"no database" * 99)
    with pytest.raises(DataError, match="not a cache"):
        ClientCache(tmp_path / "cache.db")


def test_full_disk_is_not_reported_as_damage(cache):
    cache.add([Example(text="ok")], now=0, max_per_category=9)
    cache._connection.execute("pragma max_page_count = 1")  # becomes what it has
    with pytest.raises(ProgramError, match=r"cannot be written now .*full"):
        cache.add([Example(text="long " * 1_000)], now=1, max_per_category=9)
    assert texts(cache) == ["ok"]


def test_schema_can_be_read_by_other_programs(cache, tmp_path):
    cache.add([Example(text="ok")], now=5, max_per_category=9)
    with sqlite3.connect(tmp_path / "cache.db") as reader:
        found = reader.execute("select typed_at, category, text, candidates from examples")
        assert found.fetchall() == [(5.0, "chat", "ok", None)]
