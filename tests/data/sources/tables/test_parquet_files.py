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
from tff_keyboard.data.sources.tables.columns import ColumnOptions
from tff_keyboard.storage.errors import DataError

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def read(path, on_bad_line="error", **options):
    reading = ParserState(on_bad_line)
    return list(parquet_files.read_messages(path, reading, ColumnOptions(**options))), reading


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
        actual, _ = read(path)
    finally:
        parquet_files._BATCH_ROWS = kept
    assert actual == [Typed(0.0, clean_text(user), clean_text(text)) for user, text in rows]


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
    actual, reading = read(path, "skip", time="created")
    assert actual == [Typed(at.timestamp(), "7", "hi")]
    assert reading.skipped == {"no_text": 1, "empty_user": 1}
    with pytest.raises(DataError, match=r"chat\.parquet:2: the text column has no text"):
        read(path)
    assert read(path, "skip", client="author")[0] == [Typed(0, "x", "hi"), Typed(0, "x", "zebra")]


def test_position_ends_at_the_size_of_the_file(tmp_path):
    path = write(tmp_path, user=["a", "b"], text=["x", "y"])
    positions = []
    reading = ParserState(on_position=positions.append)
    list(parquet_files.read_messages(path, reading, ColumnOptions(), bytes_before=5))
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


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_of_any_resolution(tmp_path, unit):
    """dask #7877: pandas writes nanoseconds, which Python's times do not have."""
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    at = [1704058860 * per_second, None, 1704058861 * per_second - (unit == "ns")]
    times = pyarrow.array(at, pyarrow.timestamp(unit, "Asia/Singapore"))
    path = write(tmp_path, user=["a", "b", "a"], text=["x", "y", "z"], at=times)
    actual, reading = read(path, "skip", time="at")
    assert [row.time for row in actual] == pytest.approx([1704058860, 1704058861], abs=1e-5)
    assert reading.skipped == {"bad_time": 1}


def test_text_that_is_not_marked_as_text(tmp_path):
    """apache/iceberg #11367, apache/druid #3381: Impala and Hive write strings as bytes."""
    binary = pyarrow.binary()
    texts = pyarrow.array(["é".encode(), b"\xff zebra"], binary)
    path = write(tmp_path, user=pyarrow.array([b"ann", b"\xff\xfe"], binary), text=texts)
    actual, reading = read(path, "skip")
    assert (actual, reading.skipped) == ([Typed(0, "ann", "é")], {"no_text": 1})
    path = write(tmp_path, user=pyarrow.array([b"\xff\xfe", b"\xfe\xff"], binary), text=["x", "y"])
    assert [user for _, user, _ in read(path)[0]] == ["fffe", "feff"]


def test_fields_inside_columns(tmp_path):
    """The error for a column of objects proposes `author.id`."""
    authors = [{"id": 7, "name": {"first": "ann"}}, None, {"id": 8, "name": None}]
    path = write(tmp_path, author=authors, text=["x", "y", "z"])
    with pytest.raises(DataError, match=r"--client-column=author\.id"):
        read(path)
    actual, reading = read(path, "skip", client="author.id")
    assert (actual, reading.skipped) == (
        [Typed(0, "7", "x"), Typed(0, "8", "z")],
        {"empty_user": 1},
    )
    assert read(path, "skip", client="author.name.first")[0] == [Typed(0, "ann", "x")]
    with pytest.raises(DataError, match=r"none of the 2 columns is 'writer\.id'"):
        read(path, client="writer.id")


_TYPES = st.sampled_from(
    [
        *(pyarrow.string(), pyarrow.large_string(), pyarrow.binary(), pyarrow.int64()),
        *(pyarrow.float32(), pyarrow.bool_(), pyarrow.date32(), pyarrow.timestamp("ns")),
        *(pyarrow.timestamp("s", "+14:00"), pyarrow.time64("ns"), pyarrow.duration("ns")),
        *(pyarrow.list_(pyarrow.string()), pyarrow.struct([("id", pyarrow.string())])),
        *(pyarrow.dictionary(pyarrow.int8(), pyarrow.string()), pyarrow.null()),
    ]
)


@hypothesis.given(st.tuples(_TYPES, _TYPES, _TYPES), st.booleans(), st.data())
@examples(200)
def test_columns_of_any_type(tmp_path_factory, types, has_time, data):
    def values_of(kind):
        if pyarrow.types.is_null(kind):
            return pyarrow.nulls(3)
        numbers = data.draw(st.lists(st.integers(-(2**62), 2**62), min_size=3, max_size=3))
        if pyarrow.types.is_temporal(kind):
            small = [number % 2**31 for number in numbers] if kind.bit_width == 32 else numbers
            return pyarrow.array(small, pyarrow.int32() if kind.bit_width == 32 else None).view(
                kind
            )
        if pyarrow.types.is_nested(kind):
            return pyarrow.array(
                [None, None, {"id": "x"} if pyarrow.types.is_struct(kind) else ["x"]], kind
            )
        if pyarrow.types.is_boolean(kind) or pyarrow.types.is_floating(kind):
            return pyarrow.array([0, None, 1]).cast(kind)
        words = pyarrow.array(["7", None, "9"])
        return words.dictionary_encode() if pyarrow.types.is_dictionary(kind) else words.cast(kind)

    path = tmp_path_factory.mktemp("types") / "chat.parquet"
    columns = dict(zip(("user", "text", "at"), map(values_of, types), strict=True))
    parquet.write_table(pyarrow.table(columns), path)
    for on_bad_line in ("error", "skip"):
        assert is_one_line(lambda on=on_bad_line: read(path, on, time="at" if has_time else ""))
