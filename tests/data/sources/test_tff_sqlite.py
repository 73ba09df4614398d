"""TFF's own files: test files in the same format, created with TFF's features."""

import sqlite3

import pytest
import tensorflow as tf

from tff_keyboard.data.sources import tff_sqlite
from tff_keyboard.data.sources.messages import Message, ParserState
from tff_keyboard.storage.errors import DataError


def feature(value):
    if isinstance(value, int):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def example(**features):
    return tf.train.Example(
        features=tf.train.Features(feature={k: feature(v) for k, v in features.items()})
    ).SerializeToString()


def post(tokens):
    """Returns an example with all features that `stackoverflow.py` of TFF parses."""
    return example(
        creation_date=b"2010-01-08 09:34:05 UTC",
        score=7,
        tags=b"sql|median",
        title=b"how to do it",
        tokens=tokens.encode(),
        type=b"answer",
    )


def write_client_data(path, rows):
    """Writes the layout of `tff.simulation.datasets.save_to_sql_client_data`."""
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE examples (split_name TEXT NOT NULL, client_id TEXT NOT NULL, "
            "serialized_example_proto BLOB NOT NULL)"
        )
        connection.execute(
            "CREATE TABLE client_metadata (client_id TEXT NOT NULL, split_name TEXT NOT NULL, "
            "num_examples INTEGER NOT NULL)"
        )
        connection.executemany("INSERT INTO examples VALUES (?, ?, ?)", rows)
        for split, user in sorted({row[:2] for row in rows}):
            count = sum(row[:2] == (split, user) for row in rows)
            connection.execute("INSERT INTO client_metadata VALUES (?, ?, ?)", (user, split, count))
    connection.close()
    return path


@pytest.fixture
def stack_overflow(tmp_path):
    return write_client_data(
        tmp_path / "stackoverflow.sqlite",
        [
            ("train", "1", post("use a <URL> here .")),
            ("test", "1", post("edit : see above")),
            ("heldout", "10", post("thanks .")),
            ("train", "2", post("it doesn't work")),
            ("train", "1", post("try again")),
        ],
    )


def read(path, name, on_bad_line="error", **arguments):
    reading = ParserState(on_bad_line)
    layout = tff_sqlite.FORMATS[name]
    return list(tff_sqlite.read_messages(path, layout, reading, **arguments)), reading.skipped


def test_stack_overflow_separates_held_out_users_and_later_posts(stack_overflow):
    messages, _ = read(stack_overflow, "stackoverflow")
    assert messages == [
        Message("1", "use a <URL> here ."),
        Message("2", "it doesn't work"),
        Message("1", "try again"),
        Message("10", "thanks .", "held_out"),
        Message("1", "edit : see above", None, True),
    ]
    assert tff_sqlite.num_examples(stack_overflow) == 5


def test_max_users_reads_all_messages_of_some_users(stack_overflow):
    everything, _ = read(stack_overflow, "stackoverflow")
    sets = set()
    for seed in range(20):
        some, _ = read(stack_overflow, "stackoverflow", max_users=1, seed=seed)
        (user,) = {message.user for message in some}
        sets.add(user)
        assert some == [message for message in everything if message.user == user]
    assert sets == {"1", "2", "10"}


def test_shakespeare_has_one_message_per_line(tmp_path):
    path = write_client_data(
        tmp_path / "shakespeare.sqlite",
        [
            ("train", "PLAY_KING", example(snippets=b"Good day.\n\nWho calls?")),
            ("test", "PLAY_KING", example(snippets=b"Leave me.")),
        ],
    )
    messages, skipped = read(path, "shakespeare")
    assert messages == [
        Message("PLAY_KING", "Good day."),
        Message("PLAY_KING", "Who calls?"),
        Message("PLAY_KING", "Leave me.", None, True),
    ]
    assert skipped == {"blank_line": 1}


def test_the_same_file_loads_in_tff(stack_overflow):
    """TFF itself reads the fixture, not only this project."""
    from tensorflow_federated.python.simulation.datasets import sql_client_data, stackoverflow

    data = sql_client_data.SqlClientData(str(stack_overflow), "train").preprocess(
        stackoverflow._add_proto_parsing
    )
    assert sorted(data.client_ids) == ["1", "2"]
    texts = [e["tokens"].numpy() for e in data.create_tf_dataset_for_client("1")]
    assert texts == [b"use a <URL> here .", b"try again"]


def test_example_without_the_feature(tmp_path):
    rows = [
        ("train", "1", example(snippets=b"x")),
        ("train", "1", post("ok")),
        ("train", "1", b"\xff\xff"),
        ("train", "1", example(tokens=b"\xff")),
    ]
    path = write_client_data(tmp_path / "x.sqlite", rows)
    with pytest.raises(DataError, match=r"x\.sqlite:1: row 1 of `examples` has no UTF-8 feature"):
        read(path, "stackoverflow")
    messages, skipped = read(path, "stackoverflow", "skip")
    assert messages == [Message("1", "ok")]
    assert skipped == {"no_feature": 3}


@pytest.mark.parametrize(
    "content, says",
    [
        (None, "no such file.*tff.simulation.datasets"),
        (b"", "is not an SQLite file"),
        (b"user\ttext\n", "is not an SQLite file"),
        (b"\xfd7zXZ\0...", "is compressed. Unpack it"),
        (b"SQLite format 3\0" + b"x" * 500, "not TFF client data, or damaged"),
    ],
)
def test_other_files(tmp_path, content, says):
    path = tmp_path / "data.sqlite"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=says):
        read(path, "stackoverflow")


def test_other_database_and_empty_splits(tmp_path):
    with sqlite3.connect(tmp_path / "other.sqlite") as connection:
        connection.execute("CREATE TABLE mail (body TEXT)")
    connection.close()
    with pytest.raises(DataError, match=r"not TFF client data.*no such table"):
        read(tmp_path / "other.sqlite", "stackoverflow")
    path = write_client_data(tmp_path / "empty.sqlite", [("default_split", "1", post("x"))])
    with pytest.raises(DataError, match="no example in the splits train, heldout, test"):
        read(path, "stackoverflow")
    with pytest.raises(DataError, match="is a folder"):
        read(tmp_path, "stackoverflow")
