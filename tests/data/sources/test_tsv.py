"""`user<TAB>text`: written lines are read back; errors name lines in another form."""

import tempfile
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard.data.sources import tsv
from tff_keyboard.data.sources.messages import Message, ParserState
from tff_keyboard.storage.errors import DataError

NO_CONTROL = st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r\0\ufeff")
USERS = st.text(NO_CONTROL, min_size=1, max_size=8).map(str.strip).filter(bool)
ROWS = st.lists(st.tuples(USERS, st.text(NO_CONTROL, max_size=30)), min_size=1, max_size=30)


def read(paths, on_bad_line="error"):
    reading = ParserState(on_bad_line)
    return list(tsv.read_messages(paths, reading)), dict(reading.skipped)


@hypothesis.given(rows=ROWS, line_end=st.sampled_from(["\n", "\r\n"]), cut=st.integers(0, 30))
@examples(100)
def test_any_users_and_texts_survive_interleaved_and_in_several_files(rows, line_end, cut):
    hypothesis.assume(rows[0][0].lower() not in ("user", "client", "author"))
    with tempfile.TemporaryDirectory() as directory:
        paths = []
        for index, part in enumerate([rows[:cut], rows[cut:]]):
            if part:
                paths.append(Path(directory) / f"{index}.tsv")
                text = "".join(f"{user}\t{text}{line_end}" for user, text in part)
                paths[-1].write_bytes(text.encode())
        assert read(paths) == ([Message(user, text) for user, text in rows], {})


@pytest.mark.parametrize(
    "bad, reason, says",
    [
        ("just text", "no_tab", ":2: the line has no tab"),
        ("u\tv\tsecret", "extra_tabs", ":2: the line has 3 columns.*cut -f1,2"),
        (" \tsecret", "empty_user", ":2: there is no user before the tab"),
    ],
)
def test_line_of_another_form(tmp_path, bad, reason, says):
    path = tmp_path / "chat.tsv"
    path.write_text(f"a\tx\n{bad}\nb\ty\n")
    with pytest.raises(DataError, match=says) as caught:
        read([path])
    assert "secret" not in str(caught.value)
    assert read([path], "skip") == ([Message("a", "x"), Message("b", "y")], {reason: 1})


def test_header_is_counted_on_the_first_line_only(tmp_path):
    path = tmp_path / "chat.tsv"
    path.write_text("User_ID\tText\na\tx\nuser\ttext\n")
    assert read([path]) == ([Message("a", "x"), Message("user", "text")], {"header": 1})


def test_header_with_a_column_twice_is_an_error(tmp_path):
    path = tmp_path / "chat.tsv"
    path.write_text("user\tuser\ttext\na\ta\tx\n")
    with pytest.raises(DataError, match=":1: the line has 3 columns"):
        read([path])
