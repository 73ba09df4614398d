"""TOML of strangers: one kind of error, and bounded memory."""

import time
import tracemalloc

import pytest

from tff_keyboard.storage import toml

LONG = 5_000  # names of a key; `tomllib` needs 100 MB for them


@pytest.mark.parametrize(
    "text",
    [
        "a." * LONG + "a = 1",
        "[" + "a . " * LONG + "a]",
        "x = {" + "a." * LONG + "a = 1}",
        '"a\\"."."b".' * LONG + "a = 1",
        "'a'.\t" * LONG + "a = 1",
    ],
    ids=["key", "table", "inline", "quoted", "literal"],
)
def test_a_key_of_thousands_of_names_needs_no_memory(text):
    tracemalloc.start()
    try:
        with pytest.raises(toml.InvalidTomlError, match="nested deeper than 100 levels"):
            toml.parse(text)
        assert tracemalloc.get_traced_memory()[1] < 5e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "text",
    ['x = "' + '\\"' * 100_000, "x = '" + ',"\\"' * 100_000, "a " * 100_000, "a" * 200_000],
    ids=["escaped", "commas", "words", "word"],
)
def test_a_hostile_line_is_refused_in_seconds(text):
    start = time.monotonic()
    with pytest.raises(toml.InvalidTomlError):
        toml.parse(text)
    assert time.monotonic() - start < 5


def test_keys_and_texts_with_many_dots_are_read():
    key = ".".join(f"k{number}" for number in range(90))
    tables = toml.parse(f'{key} = "{"a. " * 90}"\n["x.y".z]\nw = 1.5')
    assert tables["x.y"] == {"z": {"w": 1.5}}
