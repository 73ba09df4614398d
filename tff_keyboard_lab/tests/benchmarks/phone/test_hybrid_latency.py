"""Input and counts of the hybrid's benchmark, by hand."""

import gzip

import pytest

from tff_keyboard_lab.benchmarks.phone import hybrid_latency


@pytest.mark.parametrize("name", ["text.tsv", "text.tsv.gz"])
def test_latency_uses_users_with_most_messages(tmp_path, name):
    data = b"ann\thi\nbob\tone\nbob\ttwo\ncid\ta\ncid\tb\ncid\tc\n"
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    assert hybrid_latency.messages_of(tmp_path / name, 2) == ["a", "b", "c", "one", "two"]


def test_keys_and_percentiles():
    keys = list(hybrid_latency.keys_of("a bc"))
    assert [text for text, _ in keys] == ["", "a", "a ", "a b", "a bc"]
    assert [begins for _, begins in keys] == [True, False, True, False, False]
    watch = hybrid_latency.Stopwatch()
    for number in range(100):
        watch.time("key", lambda: None, "first of a word" if number % 10 == 0 else "")
    watch.cpu["key"] = [float(number) for number in range(100)]
    key, first = watch.rows()
    assert (key["calls"], first["calls"]) == (100, 10)
    assert [key[f"cpu_p{p}_ms"] for p in (50, 95, 99)] == [50.0, 95.0, 99.0]
    assert "50.000 / 95.000 / 99.000" in hybrid_latency.table([key])
