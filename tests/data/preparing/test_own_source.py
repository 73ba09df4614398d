"""`prepare` reads the user's own text source."""

import pytest

from tff_keyboard import config as config_lib
from tff_keyboard.data.preparing import prepare
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.storage import part_reference
from tff_keyboard.storage.errors import ConfigError, DataError
from tff_keyboard.training.run_plan import planned_origin
from tff_keyboard.training.run_privacy import origin_of

SOURCE = """
def lines(files, clients: int, seed: int, word: str = "hello"):
    for number, line in enumerate(files[0].read_text().splitlines()):
        yield f"client {number % clients}", f"{word} {line}"


def broken(files):
    yield "ann", "hi"
    raise KeyError("secret")


def numbers():
    yield "ann", 3
"""


@pytest.fixture(name="load")
def _load(tmp_path):
    part_reference._load.cache_clear()
    (tmp_path / "mine.py").write_text(SOURCE)
    text = tmp_path / "text.txt"
    text.write_text("".join(f"this is message number {n}\n" for n in range(90)))

    def load(name, *overrides):
        source = f"data.source={tmp_path / 'mine.py'}:{name}"
        input_ = config_lib.override("data.input", str(text))
        return config_lib.loads("", [source, input_, "data.min_word_users=1", *overrides]).data

    return load


def test_prepares_the_messages_of_the_source(load, tmp_path):
    config = load("lines", "data.source_options={clients=30, word='howdy'}")
    card = prepare.prepare(config, tmp_path / "store").card
    assert card["options"]["source_options"] == {"clients": 30, "word": "howdy"}
    assert len(card["options"]["source_sha256"]) == 64
    store = ClientStore(tmp_path / "store")
    clients = sum(len(store.client_ids(p)) for p in ("train", "validation", "held_out"))
    assert clients == 30
    assert "howdy" in store.vocabulary.words
    assert prepare.prepare(config, tmp_path / "store").was_up_to_date
    file = tmp_path / "mine.py"
    file.write_text(SOURCE.replace("{word} {line}", "{line}"))
    part_reference._load.cache_clear()
    with pytest.raises(DataError, match=r"other options .source_sha256."):
        prepare.prepare(config, tmp_path / "store")


def test_the_ledger_of_a_run_on_the_store_names_the_source(load, tmp_path):
    """Also if the config of the training does not repeat `data.source`."""
    config = load("lines", "data.source_options={clients=30}")
    card = prepare.prepare(config, tmp_path / "store").card
    named = f"data.source = {tmp_path / 'mine.py'}:lines"
    for unchecked in ((), (named,)):  # the config names it, or not
        header = origin_of(None, card, "", None, "", unchecked_parts=unchecked)
        assert header["unchecked_parts"] == (named,)
    planned = planned_origin(str(tmp_path / "store"), "", unchecked_parts=("client.type = a.py:A",))
    assert planned["unchecked_parts"] == ("client.type = a.py:A", named)
    of_files = {**card, "options": {"source": "messages"}}
    assert origin_of(None, of_files, "", None, "")["unchecked_parts"] == ()


@pytest.mark.parametrize(
    "name, overrides, words",
    [
        ("lines", [], "`data.source_options.clients` is missing"),
        ("lines", ["data.source_options={clint=3}"], "Did you mean `data.source_options.clients`"),
        ("lines", ["data.source_options={clients='x'}"], "must be a whole number"),
        ("nothing", [], "`data.source` = .* 'nothing' does not exist"),
    ],
)
def test_wrong_options_are_refused(load, name, overrides, words):
    with pytest.raises(ConfigError, match=words):
        load(name, *overrides)


@pytest.mark.parametrize(
    "name, words",
    [
        ("broken", r"line 9 raised KeyError\.$"),
        ("numbers", "must return pairs of strings.* Item 1 is another object"),
    ],
)
def test_bad_source_leaves_no_store(load, tmp_path, name, words):
    with pytest.raises(ConfigError, match=words):
        prepare.prepare(load(name), tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_shipped_sources_have_no_options():
    with pytest.raises(ConfigError, match=r"`data.source_options` must be empty"):
        config_lib.loads("", ["data.source_options={a=1}"])
    with pytest.raises(ConfigError, match=r"`data.source` must be one of 'synthetic', 'tsv'"):
        config_lib.loads("", ["data.source=tvs"])
