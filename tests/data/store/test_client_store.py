"""Reading a store: checks at opening, rejected names, threads."""

import concurrent.futures
import shutil
import sqlite3

import numpy as np
import pytest

from tff_keyboard.config.sections.data_config import DataConfig
from tff_keyboard.data.preparing import prepare
from tff_keyboard.data.sources.messages import POPULATIONS
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.storage.errors import DataError


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("data") / "store"
    prepare.prepare(DataConfig(synthetic_typists=30, synthetic_messages=10), out)
    return out


@pytest.fixture
def store_path(made, tmp_path):
    return shutil.copytree(made, tmp_path / "store")


def test_counts_agree_with_the_card_and_the_messages(made):
    store = ClientStore(made)
    for population, part in store.card["populations"].items():
        ids = store.client_ids(population)
        counts = store.num_messages(population)
        assert len(ids) == len(counts) == part["clients"]
        assert counts.sum() == part["messages"]
        messages = [store.messages(population, client_id) for client_id in ids]
        assert [len(rows) for rows in messages] == counts.tolist()
        assert sum(len(row) for rows in messages for row in rows) == part["words"]
        assert all(
            row.min() >= 3 and row.max() < len(store.vocabulary)
            for rows in messages
            for row in rows
        )


def test_messages_are_decoded_when_they_are_looked_up(made):
    store = ClientStore(made)
    for client_id in store.client_ids("train"):
        expected = [store.vocabulary.encode(words) for words in store.words("train", client_id)]
        messages = store.messages("train", client_id)
        assert len(messages) == len(expected)
        assert [ids.tolist() for ids in messages] == expected
        assert messages[-1].dtype == np.int32
        assert messages[-1].tolist() == expected[-1]
        assert [ids.tolist() for ids in messages[2:5]] == expected[2:5]
        with pytest.raises(IndexError):
            messages[len(messages)]
    with pytest.raises(ValueError, match="No client"):
        store.messages("train", "nobody")


def typed_lengths(store):
    return {
        population: [
            [len(ids) for ids in store.messages(population, client_id)]
            for client_id in store.client_ids(population)
        ]
        for population in POPULATIONS
    }


def kept_lengths(store):
    return {
        population: [
            store.message_lengths(population, index).tolist()
            for index in range(len(store.client_ids(population)))
        ]
        for population in POPULATIONS
    }


def test_lengths_match_messages(made, monkeypatch):
    store = ClientStore(made)
    expected = typed_lengths(store)
    monkeypatch.setattr(store, "messages", None)  # lengths are found without reading messages
    assert kept_lengths(store) == expected


def test_lengths_of_another_store_are_refused(store_path):
    lengths = np.load(store_path / "message_lengths.npy")
    np.save(store_path / "message_lengths.npy", lengths[::-1].copy())
    with pytest.raises(DataError, match=r"message_lengths\.npy: was changed after `prepare`"):
        ClientStore(store_path)


def test_all_messages_of_a_population(made):
    store = ClientStore(made)
    expected = [m for c in store.client_ids("train") for m in store.messages("train", c)]
    actual = store.all_messages("train")
    assert [m.tolist() for m in actual] == [m.tolist() for m in expected]
    with pytest.raises(DataError, match="no messages of 'train_later'"):
        store.all_messages("train_later")


def test_threads_read_the_same_as_one_thread(made):
    store = ClientStore(made)
    ids = store.client_ids("train") * 5
    expected = [store.words("train", client_id) for client_id in ids]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda client_id: store.words("train", client_id), ids)) == expected


def test_rejects_unknown_names(made):
    store = ClientStore(made)
    with pytest.raises(ValueError, match="`population` must be one of train, validation"):
        store.client_ids("test")
    with pytest.raises(ValueError, match="No client 'nobody' in population 'train'"):
        store.messages("train", "nobody")
    (held_out, *_) = store.client_ids("held_out")
    with pytest.raises(ValueError, match="No client"):
        store.words("train", held_out)


def test_hash_names_the_data(made, store_path, tmp_path):
    assert ClientStore(made).card_hash == ClientStore(store_path).card_hash
    prepare.prepare(DataConfig(synthetic_typists=31, synthetic_messages=10), tmp_path / "other")
    assert ClientStore(made).card_hash != ClientStore(tmp_path / "other").card_hash


def test_a_store_is_never_written_to(made):
    before = {file.name: file.read_bytes() for file in made.iterdir()}
    store = ClientStore(made)
    store.messages("train", store.client_ids("train")[0])
    assert {file.name: file.read_bytes() for file in made.iterdir()} == before


@pytest.mark.parametrize(
    "damage, says",
    [
        (lambda path: (path / "data_card.json").unlink(), "is not a client store"),
        (lambda path: (path / "data_card.json").write_text("{"), "is damaged"),
        (lambda path: (path / "data_card.json").write_text("[]"), "is not a data card of format"),
        (
            lambda path: (path / "data_card.json").write_text('{"format": 1}'),
            "'file_bytes' is missing",
        ),
        (lambda path: (path / "vocabulary.txt").unlink(), "is missing, or was changed"),
        (lambda path: (path / "clients.sqlite").unlink(), "is missing, or was changed"),
        (
            lambda path: (path / "clients.sqlite").write_bytes(
                (path / "clients.sqlite").read_bytes()[:-1]
            ),
            "is missing, or was changed",
        ),
        (
            lambda path: (path / "clients.sqlite").write_bytes(
                b"x" * (path / "clients.sqlite").stat().st_size
            ),
            r"clients\.sqlite: is damaged",
        ),
        (
            lambda path: (path / "vocabulary.txt").write_text(
                (path / "vocabulary.txt").read_text().replace("\nyou\n", "\nyuo\n")
            ),
            "not a complete vocabulary file",
        ),
    ],
    ids=[
        "no-card",
        "cut-card",
        "other-json",
        "empty-card",
        "no-words",
        "no-clients",
        "cut",
        "junk",
        "word",
    ],
)
def test_damaged_store_is_refused(store_path, damage, says):
    damage(store_path)
    with pytest.raises(DataError, match=says) as caught:
        ClientStore(store_path)
    assert "prepare" in str(caught.value)


def test_rows_of_an_unknown_population_are_damage(store_path):
    with sqlite3.connect(store_path / "clients.sqlite") as connection:
        connection.execute("UPDATE client_metadata SET split_name = 'other'")
    connection.close()
    with pytest.raises(DataError, match="is damaged"):
        ClientStore(store_path)


def delete_messages(connection):
    connection.execute("DELETE FROM examples WHERE rowid % 3 = 0")


def exchange_clients(connection):
    first, second = connection.execute(
        "SELECT min(rowid), client_id FROM examples WHERE split_name = 'train' "
        "GROUP BY client_id ORDER BY 1 LIMIT 2"
    ).fetchall()
    for row, client_id in ((first[0], second[1]), (second[0], first[1])):
        connection.execute("UPDATE examples SET client_id = ? WHERE rowid = ?", (client_id, row))


def forget_a_client(connection):
    connection.execute(
        "DELETE FROM client_metadata WHERE client_id IN (SELECT client_id FROM examples LIMIT 1)"
    )


@pytest.mark.parametrize("change", [delete_messages, exchange_clients, forget_a_client])
def test_a_store_that_was_changed_at_equal_size_is_refused(store_path, change):
    """As can happen during a resumed run: the card and the size of the file are unchanged."""
    size = (store_path / "clients.sqlite").stat().st_size
    connection = sqlite3.connect(store_path / "clients.sqlite")
    with connection:
        change(connection)
    connection.close()
    assert (store_path / "clients.sqlite").stat().st_size == size
    with pytest.raises(DataError, match=r"clients\.sqlite: was changed after `prepare`"):
        ClientStore(store_path)


def all_words(path):
    store = ClientStore(path)
    return {
        (population, client_id): store.words(population, client_id)
        for population in POPULATIONS
        for client_id in store.client_ids(population)
    }


@pytest.mark.parametrize("place", [0, 1, 2000, 4000])
def test_an_overwritten_page_is_noticed_or_harmless(made, store_path, place):
    """Damage in an unused part of a page is harmless; any other damage must be detected."""
    path = store_path / "clients.sqlite"
    sound, expected = path.read_bytes(), all_words(made)
    noticed = []
    for page in range(len(sound) // 4096):
        content = bytearray(sound)
        content[4096 * page + place : 4096 * page + place + 90] = b"\xa5" * 90
        path.write_bytes(content)
        try:
            assert all_words(store_path) == expected
        except DataError as error:
            noticed.append(str(error))
    assert len(noticed) > len(sound) // 4096 / 2
    assert all("prepare" in message for message in noticed)


def test_missing_directory(tmp_path):
    with pytest.raises(DataError, match=r"there is no such folder.*`tff-keyboard prepare`"):
        ClientStore(tmp_path / "nothing")
    with pytest.raises(DataError, match=r"is not a client store: it has no data_card\.json"):
        ClientStore(tmp_path)


def in_another_thread(function, *arguments):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *arguments).result()


def test_a_store_that_is_written_to_while_it_is_in_use_is_refused(store_path, tmp_path):
    """A round with other text would have the noise of the text that was checked."""
    store = ClientStore(store_path)
    client = store.client_ids("train")[0]
    other = tmp_path / "other"
    prepare.prepare(DataConfig(synthetic_typists=30, synthetic_messages=11), other)
    shutil.copyfile(other / "clients.sqlite", store_path / "clients.sqlite")  # in place
    for read in (store.examples, lambda *names: in_another_thread(store.examples, *names)):
        with pytest.raises(DataError, match="was changed while it was in use"):
            read("train", client)


def test_a_store_that_is_replaced_while_it_is_in_use_stays_the_same(store_path):
    store = ClientStore(store_path)
    client = store.client_ids("train")[0]
    before = [ids.tolist() for ids in store.examples("train", client)]
    config = DataConfig(synthetic_typists=30, synthetic_messages=11)
    prepare.prepare(config, store_path, overwrite=True)
    assert [ids.tolist() for ids in store.examples("train", client)] == before
    with pytest.raises(DataError, match="was changed while it was in use"):
        in_another_thread(store.examples, "train", client)  # it would open the new file
