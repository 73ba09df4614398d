"""Parquet: the output of pyarrow is read; other files are rejected in one line."""

import datetime

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.support.damage import damaged, is_one_line
from tests.support.examples import examples
from tff_keyboard.data.sources import formats
from tff_keyboard.data.sources.messages import ParserState, Typed, clean_text
from tff_keyboard.data.sources.tables import parquet_files
from tff_keyboard.data.sources.tables.columns import WantedColumns
from tff_keyboard.storage.errors import DataError

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def read(path, on_bad_line="error", **wanted):
    reading = ParserState(on_bad_line)
    return list(parquet_files.read_messages(path, reading, WantedColumns(**wanted))), reading


def write(directory, **columns):
    path = directory / "chat.parquet"
    parquet.write_table(pyarrow.table(columns), path)
    return path


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
ROWS = st.lists(st.tuples(TEXT.filter(lambda user: clean_text(user)), TEXT), min_size=1, max_size=9)


@hypothesis.given(rows=ROWS, batch=st.integers(1, 4))
@examples(100)
def test_round_trip_with_pyarrow(tmp_path_factory, rows, batch):
    users, texts = zip(*rows, strict=True)
    directory = tmp_path_factory.mktemp("parquet")
    path = write(directory, text=list(texts), n=list(range(len(rows))), user=list(users))
    kept, parquet_files._BATCH_ROWS = parquet_files._BATCH_ROWS, batch
    try:
        found, _ = read(path)
    finally:
        parquet_files._BATCH_ROWS = kept
    assert found == [Typed(0.0, clean_text(user), clean_text(text)) for user, text in rows]


def test_types_of_real_tables(tmp_path):
    """Covers dictionaries of strings, ids with missing values, and time stamps."""
    at = datetime.datetime(2023, 12, 31, 21, 41, tzinfo=datetime.timezone.utc)
    path = write(
        tmp_path,
        author=pyarrow.array(["x"] * 3).dictionary_encode(),
        client_id=[7.0, 8.0, None],
        body=pyarrow.array(["hi", None, "zebra"], pyarrow.large_string()),
        created=[at, at, at],
    )
    found, reading = read(path, "skip", time="created")
    assert found == [Typed(at.timestamp(), "7", "hi")]
    assert reading.skipped == {"no_text": 1, "empty_user": 1}
    with pytest.raises(DataError, match=r"chat\.parquet:2: the text column has no text"):
        read(path)
    assert read(path, "skip", client="author")[0] == [Typed(0, "x", "hi"), Typed(0, "x", "zebra")]


def test_position_ends_at_the_size_of_the_file(tmp_path):
    path = write(tmp_path, user=["a", "b"], text=["x", "y"])
    positions = []
    reading = ParserState(on_position=positions.append)
    list(parquet_files.read_messages(path, reading, WantedColumns(), bytes_before=5))
    assert positions == [5 + path.stat().st_size]


def test_the_folder_of_a_dataset(tmp_path):
    folder = tmp_path / "posts.parquet"
    for part in (folder / "part-0", folder / "year=2024"):
        part.mkdir(parents=True)
    write(folder / "year=2024", user=["a"], text=["x"])
    write(folder / "part-0", user=["b"], text=["y"]).rename(folder / "part-0.parquet")
    assert formats.format_of(folder) == "parquet"
    assert [path.name for path in formats.input_files("parquet", (folder,))] == [
        "part-0.parquet",
        "chat.parquet",
    ]


def test_other_files(tmp_path):
    with pytest.raises(DataError, match="there is no such file"):
        read(tmp_path / "nothing.parquet")
    with pytest.raises(DataError, match="is a folder"):
        read(tmp_path)
    (tmp_path / "chat.parquet").write_bytes(b"user,text\n" * 9)
    with pytest.raises(DataError, match="is not a Parquet file"):
        read(tmp_path / "chat.parquet")


@hypothesis.given(st.data())
@examples(200)
def test_damaged_files(tmp_path_factory, data):
    path = write(tmp_path_factory.mktemp("damaged"), user=["a", "b"] * 9, text=["zebra"] * 18)
    path.write_bytes(data.draw(damaged(path.read_bytes())))
    assert is_one_line(lambda: read(path))
