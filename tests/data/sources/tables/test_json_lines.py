"""JSON lines and arrays: the output of `json.dumps` is read; errors name invalid lines."""

import gzip
import json

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard.data.sources.messages import ParserState, Typed, clean_text
from tff_keyboard.data.sources.tables import json_lines
from tff_keyboard.data.sources.tables.columns import ColumnOptions
from tff_keyboard.storage.errors import DataError


def read(path, on_bad_line="error", **options):
    reading = ParserState(on_bad_line)
    return list(json_lines.read_messages(path, reading, ColumnOptions(**options))), reading


def write(directory, content, name="chat.jsonl"):
    path = directory / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


TEXT = st.text(st.characters(exclude_characters="\0"), max_size=30)  # including surrogates
ROWS = st.lists(st.tuples(TEXT.filter(lambda user: clean_text(user)), TEXT), min_size=1, max_size=9)


@hypothesis.given(rows=ROWS, is_gzip=st.booleans(), is_array=st.booleans(), indent=st.booleans())
@examples(200)
def test_round_trip_with_json_dumps(tmp_path_factory, rows, is_gzip, is_array, indent):
    objects = [{"n": n, "author": user, "body": text} for n, (user, text) in enumerate(rows)]
    if is_array:
        text = json.dumps(objects, indent=2 if indent else None)
    else:
        text = "\n".join(map(json.dumps, objects))
    content = text.encode()
    path = write(tmp_path_factory.mktemp("json"), gzip.compress(content) if is_gzip else content)
    assert read(path)[0] == [Typed(0.0, clean_text(user), clean_text(text)) for user, text in rows]


def test_keys_inside_objects_and_numbers_as_clients(tmp_path):
    path = write(tmp_path, '{"author": {"id": 7}, "text": "hi", "meta": {"ts": 5}}\n')
    with pytest.raises(DataError, match=r"has an object.*--client-column=author.id"):
        read(path)
    actual, reading = read(path, client="author.id", time="meta.ts")
    assert actual == [Typed(5.0, "7", "hi")]
    assert "client 'author.id', text 'text'" in reading.columns[0]


@pytest.mark.parametrize(
    "bad, reason, says",
    [
        ('{"user": "b", "text": "zebra"', "not_json", ":2: the line is not valid JSON"),
        ("9" * 5000, "not_json", ":2: the line is not valid JSON"),
        ("[" * 100_000, "not_json", ":2: the line is not valid JSON"),
        ('["zebra"]', "not_an_object", ":2: the entry is not a JSON object"),
        ('{"text": "zebra"}', "empty_user", ":2: the client column is empty"),
        ('{"user": true, "text": "zebra"}', "empty_user", ":2: the client column is empty"),
        ('{"user": "b", "text": null}', "no_text", ":2: the text column has no text"),
        ('{"user": "b", "text": "\\u0000zebra"}', "nul", ":2: the row has NUL"),
    ],
)
def test_bad_line_is_an_error_or_a_count(tmp_path, bad, reason, says):
    path = write(tmp_path, f'{{"user": "a", "text": "x"}}\n{bad}\n{{"user": "b", "text": "y"}}\n')
    with pytest.raises(DataError, match=says) as caught:
        read(path)
    assert "zebra" not in str(caught.value)
    actual, reading = read(path, "skip")
    assert actual == [Typed(0.0, "a", "x"), Typed(0.0, "b", "y")]
    assert reading.skipped == {reason: 1}


def test_an_array_that_ends_early_is_named_by_line(tmp_path):
    path = write(tmp_path, '[\n{"user": "a", "text": "zebra"},\n{"user": "b"', "chat.json")
    with pytest.raises(DataError, match=r"chat\.json:3: the file is not valid JSON") as caught:
        read(path, "skip")
    assert "zebra" not in str(caught.value)


def test_other_documents_are_rejected_with_a_way_out(tmp_path):
    """A document of Google Takeout, whose messages are in an inner list, is not JSON lines."""
    path = write(tmp_path, '{"data": [{"user": "a", "text": "zebra"}]}', "messages.json")
    says = r"messages\.json:1: cannot find the client column.*--client-column=author\.id"
    with pytest.raises(DataError, match=says) as caught:
        read(path)
    assert "count the columns" not in str(caught.value)
    assert "zebra" not in str(caught.value)
    lines = write(tmp_path, '{\n"user": "a",\n"text": "zebra"\n}\n')
    with pytest.raises(DataError, match=r":1: the line is not valid JSON.*jq -c"):
        read(lines)
