"""CSV: rows of `csv.writer` are read with any separator; errors name invalid rows."""

import csv
import gzip
import io

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard.data.sources.messages import ParserState, Typed, clean_text
from tff_keyboard.data.sources.tables import csv_files
from tff_keyboard.data.sources.tables.columns import ColumnOptions
from tff_keyboard.storage.errors import DataError


def read(path, on_bad_line="error", **options):
    reading = ParserState(on_bad_line)
    actual = list(csv_files.read_messages(path, reading, ColumnOptions(**options)))
    return [(user, text) for _, user, text in actual], reading


def write(directory, content, name="chat.csv"):
    path = directory / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
ROWS = st.lists(st.tuples(TEXT.filter(lambda user: clean_text(user)), TEXT), min_size=1, max_size=9)


@hypothesis.given(
    rows=ROWS,
    separator=st.sampled_from(",;\t|"),
    line_end=st.sampled_from(["\n", "\r\n"]),
    is_gzip=st.booleans(),
    has_mark=st.booleans(),
)
@examples(200)
def test_round_trip_with_csv_writer(tmp_path_factory, rows, separator, line_end, is_gzip, has_mark):
    out = io.StringIO()
    writer = csv.writer(out, delimiter=separator, lineterminator=line_end, quoting=csv.QUOTE_ALL)
    writer.writerow(["Text", "n", "Author"])
    writer.writerows([text, n, user] for n, (user, text) in enumerate(rows))
    content = out.getvalue().encode("utf-8-sig" if has_mark else "utf-8")
    path = write(tmp_path_factory.mktemp("csv"), gzip.compress(content) if is_gzip else content)
    actual, reading = read(path)

    def words(text):
        # A blank line inside a field is lost, which does not change the words.
        return clean_text(text).split()

    assert [(words(user), words(text)) for user, text in actual] == [
        (words(user), words(text)) for user, text in rows
    ]
    assert reading.skipped["header"] == 1


def test_columns_are_guessed_and_named_in_one_line(tmp_path):
    path = write(tmp_path, "id,body,author_id,author\n1,hello,7,Anna\n")
    actual, reading = read(path)
    assert actual == [("7", "hello")]
    (line,) = reading.columns
    assert "client 'author_id', text 'body' (guessed)" in line
    actual, reading = read(path, client="author", text="body")
    assert actual == [("Anna", "hello")]
    assert "guessed" not in reading.columns[0]


def test_positions_are_for_files_without_a_header(tmp_path):
    path = write(tmp_path, "0,1467810672,NO_QUERY,anna,hello there\n4,1,NO_QUERY,ben,bye\n")
    assert read(path, client="4", text="5")[0] == [("anna", "hello there"), ("ben", "bye")]
    with pytest.raises(DataError, match=r":1: the row has 5 columns. Count"):
        read(path, client="4", text="6")
    with pytest.raises(DataError, match="same column"):
        read(path, client="4", text="4")
    with pytest.raises(DataError, match="--time-column = 'when'"):
        read(path, client="4", text="5", time="when")
    assert read(path, client="4", text="5", time="2")[0] == [
        ("anna", "hello there"),
        ("ben", "bye"),
    ]


def test_separator_line_of_excel(tmp_path):
    assert read(write(tmp_path, "sep=;\r\nuser;text\r\nanna;a, b\r\n"))[0] == [("anna", "a, b")]


def test_tab_separated_corpora_do_not_quote_and_spreadsheets_do(tmp_path):
    corpus = write(tmp_path, 'id\tuser\ttext\n1\tann\t"stray\n2\tben\tb\n')
    assert read(corpus)[0] == [("ann", '"stray'), ("ben", "b")]
    sheet = write(tmp_path, '"user"\t"text"\n"ann"\t"a ""b"" c"\n')
    assert read(sheet)[0] == [("ann", 'a "b" c')]
    mixed = write(tmp_path, 'id\tuser\ttext\n1\t"Lee, Ann"\tzebra\n')
    with pytest.raises(DataError, match=r":2: the client's name is in quotation marks"):
        read(mixed)


@pytest.mark.parametrize(
    "bad, reason, says",
    [
        ("anna,zebra,zebra", "columns", ":3: the row has 3 columns, but the first row has 2"),
        ("anna", "columns", ":3: the row has 1 columns"),
        (",zebra", "empty_user", ":3: the client column is empty"),
        ('anna,"zebra"x', "quotes", ":3: the row is not valid CSV"),
        ("anna,ze\rbra", "quotes", ":3: the row is not valid CSV"),
        ("anna," + "zebra" * 30_000, "quotes", ":3: the row is not valid CSV"),
        ("anna,ze\0bra", "nul", ":3: the line has NUL"),
    ],
)
def test_bad_row_is_an_error_or_a_count(tmp_path, bad, reason, says):
    path = write(tmp_path, f"user,text\na,x\n{bad}\nb,y\n")
    with pytest.raises(DataError, match=says) as caught:
        read(path)
    assert "zebra" not in str(caught.value)
    assert "skip" in str(caught.value)
    actual, reading = read(path, "skip")
    assert actual == [("a", "x"), ("b", "y")]
    assert reading.skipped[reason] == 1


def test_a_row_is_named_by_its_first_line(tmp_path):
    path = write(tmp_path, 'user,text\na,"one\ntwo"\n,"three\nfour"\nb,never closed "\nc,"zebra\n')
    with pytest.raises(DataError, match=":4: the client column is empty"):
        read(path)
    actual, reading = read(path, "skip")
    assert actual == [("a", "one two"), ("b", 'never closed "')]
    assert (reading.skipped["empty_user"], reading.skipped["quotes"]) == (1, 1)


@pytest.mark.parametrize(
    "content, wanted, says",
    [
        ("anna,zebra\n", {}, "cannot find the client column.*--client-column=1"),
        ("user,zebra\n", {}, "cannot find the text column"),
        ("user,text,text\n", {}, "2 columns have the name 'text'"),
        ("user,text\n", {"client": "who"}, ".*2 columns is 'who'"),
        ("user,text\n", {"text": "user"}, ".*are the same column, 'user'"),
        ("user,text\n", {"time": "when"}, ".*columns is 'when'"),
    ],
)
def test_missing_columns_are_errors(tmp_path, content, wanted, says):
    with pytest.raises(DataError, match=f":1: {says}") as caught:
        read(write(tmp_path, content), "skip", **wanted)
    assert "zebra" not in str(caught.value)


def test_time(tmp_path):
    path = write(tmp_path, "user,text,at\na,x,1704058860\nb,y,2023-12-31T21:41:00Z\nc,z,zebra\n")
    reading = ParserState("skip")
    actual = list(csv_files.read_messages(path, reading, ColumnOptions(time="at")))
    assert actual == [Typed(1704058860, "a", "x"), Typed(1704058860, "b", "y")]
    assert reading.skipped["bad_time"] == 1
