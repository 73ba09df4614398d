"""Deep nesting and long numbers in every file of the keyboard: one line, and never a traceback."""

import pytest

from tests.support.damage import DEEP_JSON
from tff_keyboard.storage.errors import UserError
from tff_keyboard_app.events import event_log
from tff_keyboard_app.keyboard import cache_file
from tff_keyboard_app.personalisation import records


def put(folder, name, data):
    (folder / name).write_bytes(data)
    return folder / name


def results(folder, *lines):
    path = put(folder, "people.jsonl", b"".join(line + b"\n" for line in lines))
    return records.Records(path, {}, str)


READERS = {
    "events": lambda d, x: event_log.read(put(d, "events.json", x)),
    "word cache": lambda d, x: cache_file.load(
        put(d, "words.cache", cache_file.FORMAT.encode() + b"\n" + x)
    ),
    "header of results": results,
    "results": lambda d, x: results(d, b'{"format": "%s"}' % records.FORMAT.encode(), x),
}


@pytest.mark.parametrize("kind", DEEP_JSON)
@pytest.mark.parametrize("name", READERS)
def test_is_one_line(name, kind, tmp_path):
    with pytest.raises(UserError) as caught:
        READERS[name](tmp_path, DEEP_JSON[kind])
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300 + len(str(tmp_path))
