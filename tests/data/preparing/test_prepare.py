"""Preparation of a store: populations, vocabulary, counts, and no incomplete store."""

import collections
import dataclasses
import json
import os
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
import tracemalloc

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from tasks.data import prepare as prepare_task
from tests.support.examples import examples
from tff_keyboard.command_line import cli
from tff_keyboard.config.sections.data_config import DataConfig
from tff_keyboard.data import vocabulary
from tff_keyboard.data.preparing import prepare
from tff_keyboard.data.sources import split
from tff_keyboard.data.store import store_card
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.text.python_tokenizer import PythonTokenizer
from tff_keyboard.storage.errors import DataError, ProgramError

FRACTIONS = dict(validation_fraction=0.25, held_out_fraction=0.25, seed=3)


def population_of(user, seed=3):
    return split.population_of(user, seed=seed, validation_fraction=0.25, held_out_fraction=0.25)


USERS = [f"user{index}" for index in range(40)]
TRAIN = [user for user in USERS if population_of(user) == "train"]
HELD_OUT = [user for user in USERS if population_of(user) == "held_out"]


def write(path, rows):
    path.write_text("".join(f"{user}\t{text}\n" for user, text in rows), encoding="utf-8")
    return path


def chat(directory, extra=(), name="chat.tsv"):
    """Returns three short messages of each user, interleaved."""
    rows = [(user, f"hello {user} number {n}") for n in range(3) for user in USERS]
    return write(directory / name, [*rows, *extra])


def config(path, **options):
    usual = {"source": "tsv", "input": str(path), "min_word_users": 1, **FRACTIONS}
    return DataConfig(**(usual | options))


def names(directory):
    return sorted(entry.name for entry in directory.iterdir())


def snapshot(directory):
    return {
        entry.name: (entry.stat().st_mtime_ns, entry.read_bytes()) for entry in directory.iterdir()
    }


def test_store_holds_every_message_of_its_people_in_order(tmp_path):
    out = tmp_path / "store"
    card = prepare.prepare(config(chat(tmp_path)), out).card
    assert names(out) == [
        "clients.sqlite",
        "data_card.json",
        "message_lengths.npy",
        "truecase.txt",
        "vocabulary.txt",
    ]
    store = ClientStore(out)
    assert store.card == card
    seen = []
    for population in ("train", "validation", "held_out"):
        ids = store.client_ids(population)
        assert ids == sorted(user for user in USERS if population_of(user) == population)
        assert store.num_messages(population).tolist() == [3] * len(ids)
        for user in ids:
            words = store.words(population, user)
            assert words == [["hello", user, "number", str(n)] for n in range(3)]
            rows = store.messages(population, user)
            for row, message in zip(rows, words, strict=True):
                assert row.dtype == np.int32
                assert row.tolist() == store.vocabulary.encode(message)
        seen += ids
        part = card["populations"][population]
        assert (part["clients"], part["messages"]) == (len(ids), 3 * len(ids))
        assert part["words"] == 12 * len(ids)
    assert sorted(seen) == sorted(USERS)
    assert store.client_ids("train_later") == []


def test_vocabulary_comes_from_train_users_only(tmp_path):
    extra = [(HELD_OUT[0], "zebra " * 50), (TRAIN[0], "yak <URL>")]
    out = tmp_path / "store"
    card = prepare.prepare(config(chat(tmp_path, extra), dedup_min_words=0), out).card
    store = ClientStore(out)
    assert "yak" in store.vocabulary.words
    assert "zebra" not in store.vocabulary.words
    expected = {"hello", "number", "0", "1", "2", "yak", *TRAIN}
    assert set(store.vocabulary.words[4:]) == expected
    held_out = card["populations"]["held_out"]
    assert held_out["oov_words"] == 50 + 3 * len(HELD_OUT)  # zebras, and names of other users
    assert held_out["oov_rate"] == round(held_out["oov_words"] / held_out["words"], 6)
    train = card["populations"]["train"]
    assert (train["oov_words"], train["masks"]) == (1, 1)


def test_small_vocabulary_and_min_word_count(tmp_path):
    path = chat(tmp_path)
    prepare.prepare(config(path, vocabulary_size=6), tmp_path / "a")
    assert ClientStore(tmp_path / "a").vocabulary.words[4:] == ("hello", "number")
    prepare.prepare(config(path, min_word_count=4), tmp_path / "b")
    assert set(ClientStore(tmp_path / "b").vocabulary.words[4:]) == {"hello", "number", *"012"}


def test_duplicates_are_dropped_within_a_user_only(tmp_path):
    long = "this message has five words"
    extra = [
        (user, text)
        for user in USERS[:2]
        for text in [long, "short one", "THIS " + long[5:], "short one", long]
    ]
    path = chat(tmp_path, extra)
    card = prepare.prepare(config(path), tmp_path / "a").card
    assert card["dropped"] == {"duplicate_messages": 4}
    store = ClientStore(tmp_path / "a")
    words = store.words(population_of(USERS[0]), USERS[0])[3:]
    assert words == [long.split(), ["short", "one"], ["short", "one"]]
    card = prepare.prepare(config(path, dedup_min_words=0), tmp_path / "b").card
    assert card["dropped"] == {}


def test_split_by_time_keeps_the_last_messages_of_train_users_apart(tmp_path):
    card = prepare.prepare(config(chat(tmp_path), later_fraction=0.34), tmp_path / "store").card
    store = ClientStore(tmp_path / "store")
    assert store.client_ids("train_later") == store.client_ids("train")
    user = store.client_ids("train")[0]
    assert [words[-1] for words in store.words("train", user)] == ["0", "1"]
    assert [words[-1] for words in store.words("train_later", user)] == ["2"]
    assert "2" not in store.vocabulary.words  # not known at training time
    assert card["populations"]["train_later"]["messages"] == len(TRAIN)
    assert card["populations"]["held_out"]["messages"] == 3 * len(HELD_OUT)


def test_unusable_users_and_messages_are_counted(tmp_path):
    extra = [("silent", "?!"), ("silent", ""), (USERS[0], "...")]
    path = chat(tmp_path, [*extra, ("shy", "hi"), ("shy", "hi you")])
    card = prepare.prepare(config(path, min_messages_per_user=3), tmp_path / "store").card
    assert card["skipped_lines"] == {"no_words": 3}
    assert card["dropped"] == {
        "users_without_usable_text": 1,
        "users_under_min_messages": 1,
        "messages_of_users_under_min_messages": 2,
    }


def test_max_users(tmp_path):
    card = prepare.prepare(config(chat(tmp_path), max_users=30), tmp_path / "store").card
    assert sum(part["clients"] for part in card["populations"].values()) == 30
    assert card["dropped"] == {"users_over_max_users": 10}


def test_truncation_and_histograms(tmp_path):
    lengths = [1, 3, 4, 5, 9]
    rows = [(user, " ".join(["word"] * n)) for user in USERS for n in lengths]
    path = write(tmp_path / "chat.tsv", rows)
    options = dict(max_length=5, dedup_min_words=0)
    card = prepare.prepare(config(path, **options), tmp_path / "whole").card
    whole = card["populations"]["train"]
    assert (whole["truncated_messages"], whole["truncated_words"]) == (0, 0)
    assert whole["long_messages"] == 2 * len(TRAIN)
    card = prepare.prepare(config(path, **options, long_messages="truncate"), tmp_path / "s").card
    part = card["populations"]["train"]
    users = len(TRAIN)
    # 5 targets of n words and an end are kept: 4 words fit with their end, 5 lose it, 9 lose 4
    # words.
    assert part["truncated_messages"] == 2 * users
    assert part["truncated_messages_rate"] == 0.4
    assert part["truncated_words"] == 4 * users
    assert part["words_per_message"] == {
        "min": 1,
        "median": 4,
        "max": 9,
        "bins": {"1-1": users, "2-3": users, "4-7": 2 * users, "8-15": users},
    }
    assert part["words_per_client"]["bins"] == {"16-31": users}


def test_long_messages_are_split(tmp_path):
    rows = [(user, "a b . c d e f g h i") for user in USERS]
    path = write(tmp_path / "chat.tsv", rows)
    options = dict(max_length=5, long_messages="split", mode="whitespace")
    card = prepare.prepare(config(path, **options), tmp_path / "store").card
    store = ClientStore(tmp_path / "store")
    assert store.words("train", TRAIN[0]) == [["a", "b", "."], list("cdefghi")]
    assert card["populations"]["train"]["truncated_messages"] == 0
    with pytest.raises(DataError, match=r"'split'.*'words'.*'continue'"):
        prepare.prepare(config(path, long_messages="split"), tmp_path / "words")


def test_second_run_changes_nothing_and_other_options_are_rejected(tmp_path):
    path = chat(tmp_path)
    out = tmp_path / "store"
    first = prepare.prepare(config(path), out)
    before = snapshot(out)
    second = prepare.prepare(config(path), out)
    assert (first.was_up_to_date, second.was_up_to_date) == (False, True)
    assert second.card == first.card
    with pytest.raises(DataError, match=r"other options \(vocabulary_size\)\. Pass --overwrite"):
        prepare.prepare(config(path, vocabulary_size=7), out)
    # An option without effect for this source does not make another store.
    assert prepare.prepare(config(path, num_shards=7), out).was_up_to_date
    chat(tmp_path, [("user1", "one more")])
    with pytest.raises(DataError, match="other input files"):
        prepare.prepare(config(path), out)
    assert snapshot(out) == before
    card = prepare.prepare(config(path), out, overwrite=True).card
    assert card["store_sha256"] != first.card["store_sha256"]
    assert names(tmp_path) == ["chat.tsv", "store"]


def test_same_input_elsewhere_gives_the_same_bytes(tmp_path):
    (tmp_path / "other").mkdir()
    prepare.prepare(config(chat(tmp_path)), tmp_path / "a")
    prepare.prepare(config(chat(tmp_path / "other")), tmp_path / "b")
    for name in names(tmp_path / "a"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_order_of_users_in_the_file_does_not_matter(tmp_path):
    rows = [(user, f"hello {user} {n}") for n in range(3) for user in USERS]
    first = prepare.prepare(config(write(tmp_path / "a.tsv", rows)), tmp_path / "a").card
    rows.sort(key=lambda row: row[0])
    second = prepare.prepare(config(write(tmp_path / "b.tsv", rows)), tmp_path / "b").card
    assert first["store_sha256"] == second["store_sha256"]
    assert first["vocabulary"] == second["vocabulary"]


def test_given_vocabulary(tmp_path):
    path = chat(tmp_path)
    rules = vocabulary.NormalisationRules()
    given = vocabulary.Vocabulary.from_counts({"hello": 2, "2": 1, "xyz": 1}, 9, rules)
    given.save(tmp_path / "general.txt")
    options = dict(vocabulary_path=str(tmp_path / "general.txt"))
    card = prepare.prepare(config(path, **options), tmp_path / "store").card
    store = ClientStore(tmp_path / "store")
    assert store.vocabulary == given
    assert card["vocabulary"]["from"] == "file"
    user = HELD_OUT[0]
    assert store.messages("held_out", user)[2].tolist() == given.encode(["hello", user, "n", "2"])
    with pytest.raises(DataError, match=r"`data.lowercase` = False.*Set `data.lowercase` = True"):
        prepare.prepare(config(path, lowercase=False, **options), tmp_path / "other")
    with pytest.raises(DataError, match=r"`data.language` = 'tr'.*Set `data.language` = 'en'"):
        prepare.prepare(config(path, language="tr", **options), tmp_path / "other")
    with pytest.raises(DataError, match="no vocabulary file"):
        prepare.prepare(config(path, vocabulary_path="nothing.txt"), tmp_path / "other")


def test_too_few_users_for_three_populations(tmp_path):
    path = write(tmp_path / "chat.tsv", [("me", "hello"), ("you", "hi")])
    with pytest.raises(DataError, match=r"At least 3 users.*there are 2"):
        prepare.prepare(config(path), tmp_path / "store")
    rows = [(user, "hello there") for user in ("ann", "bob", "cid", "dee")]
    path = write(tmp_path / "chat.tsv", rows)
    empty = [s for s in range(50) if len({population_of(u, s) for u, _ in rows}) < 3]
    with pytest.raises(DataError, match=r"None of .*Set `data.seed` = (\d+)") as caught:
        prepare.prepare(config(path, seed=empty[0]), tmp_path / "store")
    working = int(str(caught.value).split("`data.seed` = ")[1].split(",")[0])
    card = prepare.prepare(config(path, seed=working), tmp_path / "store").card
    assert set(card["populations"]) == {"train", "validation", "held_out"}


def test_text_source_uses_its_files_as_populations(tmp_path):
    for name, word in (("train", "alpha"), ("valid", "beta"), ("test", "gamma")):
        (tmp_path / f"{name}.txt").write_text(f"the {word} <unk> word here .\n\n" * 20)
    options = dict(source="text", mode="whitespace", num_shards=5)
    card = prepare.prepare(config(tmp_path, **options), tmp_path / "store").card
    store = ClientStore(tmp_path / "store")
    assert store.num_messages("train").tolist() == [4] * 5  # equal lines are not duplicates here
    assert store.client_ids("held_out")[0] == "held_out-00000"
    assert set(store.vocabulary.words[4:]) == {"the", "alpha", "word", "here", "."}
    assert card["populations"]["validation"]["oov_rate"] == round(2 / 6, 6)
    assert card["skipped_lines"] == {"blank_line": 60}


def test_environment_variables_in_paths(tmp_path, monkeypatch):
    chat(tmp_path)
    with pytest.raises(DataError, match="the variable NO_SUCH_FOLDER is not set"):
        prepare.prepare(config("$NO_SUCH_FOLDER/chat.tsv"), tmp_path / "store")
    monkeypatch.setenv("CHATS", str(tmp_path))
    prepare.prepare(config("${CHATS}/chat.tsv"), tmp_path / "store")


@pytest.mark.parametrize(
    "content, says",
    [
        ("", "the file is empty"),
        ("\n\n", r"no usable messages \(skipped: 2 blank_line\)"),
        ("a\t...\nb\t!!\n", r"no usable messages \(skipped: 2 no_words\)"),
        ("hello\n", ":1: the line has no tab"),
        (None, "there is no such file"),
    ],
)
def test_unusable_input_is_an_error(tmp_path, content, says):
    path = tmp_path / "chat.tsv"
    if content is not None:
        path.write_text(content)
    with pytest.raises(DataError, match=says) as caught:
        prepare.prepare(config(path), tmp_path / "store")
    assert str(path) in str(caught.value)
    assert "store" not in names(tmp_path)


def test_no_input_given(tmp_path):
    with pytest.raises(DataError, match=r"requires a file\. Pass it"):
        prepare.prepare(DataConfig(source="tsv"), tmp_path / "store")


def test_skipped_lines_are_in_the_card(tmp_path):
    path = chat(tmp_path)
    path.write_bytes(path.read_bytes() + b"no tab\nu\t\xff\nu\ta\tb\n\tx\nu\t\0\n")
    card = prepare.prepare(config(path, on_bad_line="skip"), tmp_path / "store").card
    assert card["skipped_lines"] == dict.fromkeys(
        ["empty_user", "extra_tabs", "no_tab", "not_utf8", "nul"], 1
    )


def test_rejects_targets_that_are_not_stores(tmp_path):
    path = chat(tmp_path)
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("x")
    for overwrite in (False, True):
        with pytest.raises(DataError, match="has other files"):
            prepare.prepare(config(path), tmp_path / "photos", overwrite=overwrite)
        with pytest.raises(DataError, match=r"chat\.tsv is a file"):
            prepare.prepare(config(path), path, overwrite=overwrite)
    (tmp_path / "empty").mkdir()
    prepare.prepare(config(path), tmp_path / "empty")
    card = tmp_path / "empty" / "data_card.json"
    card.write_text(card.read_text()[:100])
    with pytest.raises(DataError, match=r"damaged or incomplete store\. Pass --overwrite"):
        prepare.prepare(config(path), tmp_path / "empty")
    prepare.prepare(config(path), tmp_path / "empty", overwrite=True)


def test_the_next_command_can_be_pasted(tmp_path, capsys):
    store = str(tmp_path / "my store")
    assert cli.launch(prepare_task, [str(chat(tmp_path)), f"--out={store}"]) == 0
    command = capsys.readouterr().out.splitlines()[-1].removeprefix("Next: ")
    assert shlex.split(command) == ["tff-keyboard", "advise", store]


def test_the_summary_is_the_same_at_every_call(tmp_path, capsys):
    arguments = [str(chat(tmp_path)), f"--out={tmp_path / 'store'}"]
    tables = []
    for _ in range(2):
        assert cli.launch(prepare_task, arguments) == 0
        tables.append(capsys.readouterr().out.splitlines()[1:])
    assert tables[0] == tables[1]


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), sqlite3.OperationalError("disk is full")]
)
def test_full_disk_is_one_line_and_leaves_nothing(tmp_path, monkeypatch, error):
    def fail(*unused):
        raise error

    monkeypatch.setattr(prepare.store_writer.StoreWriter, "add_client", fail)
    says = r"cannot write the store.*(No space|full).*Free some space"
    with pytest.raises(ProgramError, match=says):  # exit code 4: the disk's fault
        prepare.prepare(config(chat(tmp_path)), tmp_path / "store")
    assert names(tmp_path) == ["chat.tsv"]


def test_card_and_errors_contain_no_text(tmp_path):
    extra = [(user, f"secret{index} of {user}") for index, user in enumerate(USERS)]
    card = prepare.prepare(config(chat(tmp_path, extra)), tmp_path / "store").card
    written = (tmp_path / "store" / "data_card.json").read_text()
    assert json.loads(written) == card
    assert "secret" not in written
    assert "user7" not in written


def test_client_ids_cannot_break_the_queries_of_tff(tmp_path):
    from tensorflow_federated.python.simulation.datasets import sql_client_data

    users = [f'o\'neil {n}% "é"' for n in range(6)]
    path = write(tmp_path / "chat.tsv", [(user, "hello there") for user in users])
    prepare.prepare(config(path), tmp_path / "store")
    store = ClientStore(tmp_path / "store")
    data = sql_client_data.SqlClientData(str(tmp_path / "store" / "clients.sqlite"), "train")
    assert sorted(data.client_ids) == store.client_ids("train")
    for client_id in data.client_ids:
        (proto,) = list(data.create_tf_dataset_for_client(client_id))
        import tensorflow as tf

        features = tf.io.parse_single_example(
            proto,
            {"ids": tf.io.VarLenFeature(tf.int64), "tokens": tf.io.FixedLenFeature([], tf.string)},
        )
        (expected,) = store.messages("train", client_id)
        assert tf.sparse.to_dense(features["ids"]).numpy().tolist() == expected.tolist()
        assert features["tokens"].numpy() == b"hello there"


KILLED = """
import pathlib, sys
from tff_keyboard.config.sections.data_config import DataConfig
from tff_keyboard.data.preparing import prepare
print("ready", flush=True)
prepare.prepare(DataConfig(source="tsv", input=sys.argv[1], seed=3), pathlib.Path(sys.argv[2]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("shares", [[0.5], [0.05, 0.3, 0.6, 0.8, 0.9, 0.95]])
def test_killed_at_any_moment_leaves_no_store_and_can_be_repeated(tmp_path, shares):
    rows = [(f"user{n % 500}", f"message {n} of the day") for n in range(15_000)]
    path = write(tmp_path / "chat.tsv", rows)
    whole = DataConfig(source="tsv", input=str(path), seed=3)
    start = time.monotonic()
    expected = prepare.prepare(whole, tmp_path / "expected").card
    seconds = time.monotonic() - start
    out = tmp_path / "store"
    for share in shares:
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(path), str(out)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        )
        assert process.stdout.readline() == b"ready\n"
        time.sleep(share * seconds)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        if out.exists():  # on a fast machine the store may be complete
            assert ClientStore(out).card == expected
        else:
            with pytest.raises(DataError, match="there is no such folder"):
                ClientStore(out)
    assert prepare.prepare(whole, out).card == expected
    assert names(tmp_path) == ["chat.tsv", "expected", "store"]


@pytest.mark.slow
def test_memory_does_not_grow_with_users(tmp_path, monkeypatch):
    def peak(num_users):
        rows = ((f"user{n % num_users}", "see you there") for n in range(2 * num_users))
        path = write(tmp_path / f"{num_users}.tsv", list(rows))
        tracemalloc.start()
        try:
            prepare.prepare(config(path), tmp_path / f"store{num_users}")
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    # Buffers that are small compared to the tolerance.
    monkeypatch.setattr(prepare.grouping, "_BLOCK", 512)
    monkeypatch.setattr("tff_keyboard.data.sources.lines._BLOCK_BYTES", 1 << 12)
    monkeypatch.setattr(prepare.grouping, "_KNOWN_USERS", 500)
    monkeypatch.setattr(prepare.sources, "_READ_BYTES", 1 << 14)
    peak(50)  # the first call allocates some memory permanently
    few, many = peak(1_000), peak(6_000)
    assert many < few + 200_000  # the names of 5,000 more users alone would be 300 kB


MESSAGES = st.lists(
    st.tuples(st.sampled_from(USERS[:8]), st.text(max_size=25)), min_size=1, max_size=25
)


@hypothesis.given(extra=MESSAGES)
@examples(25)
def test_no_word_is_lost_or_made_up(tmp_path_factory, extra):
    """The store of any text contains exactly the tokeniser's words, user by user."""
    directory = tmp_path_factory.mktemp("any")
    clean = str.maketrans(dict.fromkeys("\t\n\r\0", " "))
    extra = [
        (user, text.encode("utf-8", "replace").decode().translate(clean)) for user, text in extra
    ]
    prepare.prepare(config(chat(directory, extra), dedup_min_words=0), directory / "store")
    store = ClientStore(directory / "store")
    tokenizer = PythonTokenizer(store.vocabulary.rules)
    expected = collections.defaultdict(list)
    for user, text in extra:
        if tokens := tokenizer.tokenize_one(text):
            expected[user].append(tokens)
    for user in USERS[:8]:
        assert store.words(population_of(user), user)[3:] == expected[user]


def test_options_of_the_card_rebuild_the_store(tmp_path):
    """The card contains all options that determine the content."""
    path = chat(tmp_path)
    asked = config(path, vocabulary_size=9, later_fraction=0.4, max_length=7)
    card = prepare.prepare(asked, tmp_path / "a").card
    fields = {field.name for field in dataclasses.fields(DataConfig)}
    options = {key: value for key, value in card["options"].items() if key in fields}
    again = prepare.prepare(DataConfig(input=str(path), **options), tmp_path / "b").card
    assert again == card


@hypothesis.given(
    typed=st.lists(
        st.lists(st.sampled_from([*"abcdef", "90481234", "5f3a9c1e"]), min_size=1, max_size=4),
        min_size=40,
        max_size=40,
    ),
    least=st.integers(2, 4),
)
@examples(10)
def test_no_word_of_fewer_than_k_people_is_in_the_vocabulary(tmp_path_factory, typed, least):
    folder = tmp_path_factory.mktemp("people")
    rows = [(user, " ".join(words)) for user, words in zip(USERS, typed, strict=True)]
    rows += [(user, "hello") for user in USERS]
    path = write(folder / "chat.tsv", rows)
    card = prepare.prepare(config(path, min_word_users=least), folder / "store").card
    words = ClientStore(folder / "store").vocabulary.words[4:]
    by_train_users = [set(words) for user, words in zip(USERS, typed, strict=True) if user in TRAIN]
    for word in set(words) - {"hello"}:
        assert sum(word in own for own in by_train_users) >= least
        assert len(word) == 1  # neither a number nor a hash
    assert card["vocabulary"]["rows_of_one_person"] == 0
    for part in card["populations"].values():
        assert part["oov_rate_by_counts"] <= part["oov_rate"]


def test_default_of_min_word_users(tmp_path):
    path = write(
        tmp_path / "chat.tsv", [*((user, "hello you") for user in USERS), (TRAIN[0], "zyx")]
    )
    card = prepare.prepare(config(path, min_word_users=0), tmp_path / "store").card
    assert card["vocabulary"]["min_word_users"] == 2
    assert card["vocabulary"]["words_of_one_person"] == 1
    assert card["vocabulary"]["rows_of_one_person_by_counts"] == 1
    assert ClientStore(tmp_path / "store").vocabulary.words[4:] == ("hello", "you")
    part = card["populations"]["train"]
    assert (part["oov_words"], part["oov_words_by_counts"]) == (1, 0)


def test_store_contains_the_truecase_table(tmp_path):
    rows = [(user, text) for user in USERS for text in ("We go to Singapore", "Then to NUS", "ok")]
    out = tmp_path / "store"
    card = prepare.prepare(config(write(tmp_path / "chat.tsv", rows)), out).card
    assert ClientStore(out).truecase == ["NUS", "Singapore"]
    held_out = card["truecase"]["held_out"]
    assert card["truecase"]["forms"] == 2
    assert held_out["accuracy_with_table"] == 1.0
    assert held_out["accuracy_in_lower_case"] == pytest.approx(4 / 6, abs=1e-6)  # of go to ...
    assert held_out["messages_begun_with_capital_rate"] == pytest.approx(2 / 3, abs=1e-6)
    cased = prepare.prepare(config(tmp_path / "chat.tsv", lowercase=False), tmp_path / "cased")
    assert "truecase" not in cased.card
    assert ClientStore(tmp_path / "cased").truecase == []


def test_a_store_of_another_language(tmp_path):
    texts = ("İyi ki İstanbul güzel", "bence ISPARTA da", "TR İstanbul")
    path = write(tmp_path / "chat.tsv", [(user, text) for user in USERS for text in texts])
    card = prepare.prepare(config(path, language="tr"), tmp_path / "tr").card
    store = ClientStore(tmp_path / "tr")
    assert store.vocabulary.rules == vocabulary.NormalisationRules(language="tr")
    assert {"iyi", "istanbul", "ısparta", "tr"} <= set(store.vocabulary.words)
    assert store.truecase == ["İstanbul", "ISPARTA"]  # by word: i, ı
    assert card["truecase"]["held_out"]["accuracy_with_table"] == 1.0
    assert card["vocabulary"]["rules"]["language"] == "tr"
    assert card["options"]["language"] == "tr"
    english = prepare.prepare(config(path), tmp_path / "en").card
    # A store prepared without a language is the same store.
    assert "language" not in {**english["vocabulary"]["rules"], **english["options"]}


def test_repaired_defects_are_in_the_card(tmp_path):
    """Of an export with one control character, every message is read."""
    messages = [
        {"type": "message", "from_id": f"user{n}", "text": "see you at the station"}
        for n in range(12)
    ]
    path = tmp_path / "Zbigniew.json"  # the card has no names of chats
    text = json.dumps({"messages": messages}, indent=0)
    path.write_text(text.replace("see you", "see\\x01 you", 1))
    options = DataConfig(source="telegram", input=str(path), vocabulary_size=12, seed=3)
    card = prepare.prepare(options, tmp_path / "store").card
    line = text[: text.index("see")].count("\n") + 1
    assert card["repairs"] == [f"1.json:{line}: control character in a string (1 in the file)"]
    assert "Zbigniew" not in json.dumps(card)
    assert f"repaired: {card['repairs'][0]}" in store_card.summary(card)
    assert sum(part["messages"] for part in card["populations"].values()) == 12
