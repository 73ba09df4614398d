"""Damaged client stores: each is either read unchanged or rejected in one line."""

import contextlib
import json
import shutil
import sqlite3

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.support.damage import damaged, damaged_json, is_one_line
from tests.support.examples import examples
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.storage.errors import DataError


@pytest.fixture(scope="module")
def sound(store):
    return {path.name: path.read_bytes() for path in store.iterdir() if path.is_file()}


@pytest.fixture(scope="module")
def data_root(store, tmp_path_factory):
    """Returns the path that each example overwrites; all other files are the store's."""
    return shutil.copytree(store, tmp_path_factory.mktemp("fuzzed") / "store")


@pytest.fixture(autouse=True)
def _as_it_was(data_root, sound):
    yield
    for name, data in sound.items():
        (data_root / name).write_bytes(data)


def read_all(data_root):
    store = ClientStore(data_root)
    for population in ("train", "validation", "held_out"):
        for index, client in enumerate(store.client_ids(population)):
            assert len(store.message_lengths(population, index)) == len(
                [len(message) for message in store.messages(population, client)]
            )


@hypothesis.given(st.data())
@examples(200)
@pytest.mark.parametrize(
    "name", ["message_lengths.npy", "vocabulary.txt", "truecase.txt", "data_card.json"]
)
def test_damaged_files(data_root, sound, name, data):
    (data_root / name).write_bytes(data.draw(damaged(sound[name])))
    assert is_one_line(lambda: read_all(data_root))


@hypothesis.given(st.data())
@examples(200)
def test_damaged_heads_of_lengths(data_root, sound, data):
    """NumPy would read the header as Python, with errors of its tokeniser."""
    whole = sound["message_lengths.npy"]
    head = data.draw(damaged(whole[:128]))
    (data_root / "message_lengths.npy").write_bytes(head + whole[128:])
    if head == whole[:128]:
        read_all(data_root)
    else:
        with pytest.raises(DataError, match="was changed after"):
            read_all(data_root)


@hypothesis.given(st.data())
@examples(100)
def test_damaged_cards(data_root, sound, data):
    card = json.loads(sound["data_card.json"])
    (data_root / "data_card.json").write_bytes(data.draw(damaged_json(card)))
    assert is_one_line(lambda: read_all(data_root))


def test_a_card_that_names_no_vocabulary(data_root, sound):
    card = json.loads(sound["data_card.json"]) | {"vocabulary": {"a": 1}}
    (data_root / "data_card.json").write_text(json.dumps(card))
    with pytest.raises(DataError, match="does not match the data card"):
        read_all(data_root)


VALUES = [-1, 2**63 - 1, b"\xff" * 7, b"", "x", 1.5]
COLUMNS = [
    *(("client_metadata", column) for column in ("client_id", "split_name", "num_examples")),
    *(("examples", column) for column in ("split_name", "client_id", "serialized_example_proto")),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("table, column", COLUMNS, ids=lambda name: name)
def test_other_rows(data_root, table, column, value):
    with contextlib.closing(sqlite3.connect(data_root / "clients.sqlite")) as connection:
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = 1", (value,))
        connection.commit()
    assert is_one_line(lambda: read_all(data_root))


@hypothesis.given(st.data())
@examples(100)
def test_damaged_pages(data_root, sound, data):
    whole = sound["clients.sqlite"]
    page = 4096 * data.draw(st.integers(0, len(whole) // 4096 - 1))
    new = data.draw(damaged(whole[page : page + 4096]))[:4096].ljust(4096, b"\0")
    (data_root / "clients.sqlite").write_bytes(whole[:page] + new + whole[page + 4096 :])
    assert is_one_line(lambda: read_all(data_root))
