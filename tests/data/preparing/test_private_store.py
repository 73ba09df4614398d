"""Private text is readable only by its owner: file modes, and names in stored results."""

import hashlib
import hmac
import os
import shutil
import stat
import warnings

import pytest

from tests.support.fakes import tiny_config
from tff_keyboard.data.preparing import prepare
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.evaluation import run_evaluation
from tff_keyboard.evaluation.counts import text_blocks, typed_text
from tff_keyboard.evaluation.results.result import ModelFacts
from tff_keyboard.models import build_model
from tff_keyboard.predictors.keras_predictor import KerasPredictor
from tff_keyboard.storage import names
from tff_keyboard.storage.run_directory import RunDirectory


@pytest.fixture(params=[0o022, 0o0], ids=["umask 022", "umask 0"])
def umask(request):
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(folder):
    return {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


@pytest.mark.usefixtures("umask")
def test_store_is_readable_by_its_owner_only(tmp_path, monkeypatch):
    seen = []
    write_store = prepare._write_store

    def look(config, source, given, work, identity):
        seen.append(stat.S_IMODE(work.stat().st_mode))  # also during creation
        return write_store(config, source, given, work, identity)

    monkeypatch.setattr(prepare, "_write_store", look)
    made = tmp_path / "made"
    config = tiny_config(made).data
    prepare.prepare(config, made)
    assert {path.name for path in made.iterdir()} >= {names.CLIENTS, names.MESSAGE_LENGTHS}
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert modes(made) == {0o600}
    assert seen == [0o700]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ClientStore(made)


@pytest.mark.usefixtures("umask")
def test_private_files_of_a_run_are_readable_by_their_owner_only(tmp_path, evaluation):
    run = RunDirectory.create(tmp_path / "run", config_text="[train]\n", data_card_text="{}")
    run.close()
    assert stat.S_IMODE(run.path.stat().st_mode) == 0o700
    run_evaluation.write_evaluation(tmp_path / "found.json", evaluation)
    assert stat.S_IMODE((tmp_path / "found.json").stat().st_mode) == 0o600


@pytest.fixture
def copied(store, tmp_path):
    return shutil.copytree(store, tmp_path / "a copy")


def test_warns_about_a_store_readable_by_others(copied):
    copied.chmod(0o755)
    for path in copied.iterdir():
        path.chmod(0o644)
    with pytest.warns(UserWarning, match="every user of this machine can read") as found:
        ClientStore(copied)
    (warning,) = found
    command = str(warning.message).partition("`")[2].partition("`")[0]
    assert command == f"chmod -R go= '{copied}'"
    os.system(command)
    assert stat.S_IMODE(copied.stat().st_mode) == 0o700
    assert modes(copied) == {0o600}


@pytest.mark.parametrize(("folder", "file"), [(0o700, 0o644), (0o755, 0o600), (0o750, 0o640)])
def test_does_not_warn_about_a_store_readable_by_a_group(copied, folder, file):
    """A group may have access on purpose, for example in a Kubernetes volume."""
    copied.chmod(folder)
    (copied / names.CLIENTS).chmod(file)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ClientStore(copied)


@pytest.fixture(scope="module")
def evaluation(store):
    opened = ClientStore(store)
    model = build_model(
        "cifg", vocabulary_size=len(opened.vocabulary), seed=1, units=2, embedding_size=2
    )
    return run_evaluation.evaluate_named(
        KerasPredictor(model, opened.vocabulary),
        ModelFacts(name="m"),
        typed_text.of_population(opened, "held_out"),
        store=opened,
    )


def test_list_of_ids_does_not_reveal_pseudonyms_in_an_evaluation(store, evaluation):
    """Neither do published values of a run: the card's hash and its digest of the rows."""
    opened = ClientStore(store)
    people = sorted(opened.client_ids("held_out"), key=opened.pseudonym)
    assert evaluation.text.people == tuple(map(opened.pseudonym, people))
    assert people != sorted(people)  # the order of the rows does not reveal them either
    assert list(evaluation.text.people) == sorted(set(evaluation.text.people))
    card = opened.card
    keys = ["", card["store_sha256"], card["lengths_sha256"], opened.card_hash]
    for person, name in zip(people, evaluation.text.people, strict=True):
        tried = {hashlib.sha256(person.encode()).hexdigest()[:16], person}
        for key in keys:
            for form in {key.encode(), bytes.fromhex(key)}:
                tried.add(hmac.new(form, person.encode(), "sha256").hexdigest()[:16])
        assert name not in tried


def test_pseudonyms_do_not_depend_on_the_path_of_the_store(store, copied):
    here, there = ClientStore(store), ClientStore(copied)
    people = here.client_ids("train")
    assert list(map(here.pseudonym, people)) == list(map(there.pseudonym, people))


def test_other_text_gives_other_pseudonyms(store, tmp_path):
    other = tmp_path / "other"
    prepare.prepare(tiny_config(other, "data.synthetic_messages=13").data, other)
    here, there = ClientStore(store), ClientStore(other)
    (person, *_) = set(here.client_ids("train")) & set(there.client_ids("train"))
    assert here.pseudonym(person) != there.pseudonym(person)


def test_blocks_of_lines_keep_their_names(store, tmp_path):
    opened = ClientStore(store)
    (tmp_path / "text").write_text("hello you\n" * 6)
    text = text_blocks.read_text(
        tmp_path / "text", lambda lines: [line.split() for line in lines], blocks=3
    )
    for where in (None, opened):
        actual, order = run_evaluation._names_of_clients(text, where)
        assert actual == ("lines 1-2", "lines 3-4", "lines 5-6")
        assert order.tolist() == [0, 1, 2]
    nameless = typed_text.TypedText("t", ("ann", "bob"), ([], []))
    actual, order = run_evaluation._names_of_clients(nameless, None)
    assert (actual, order.tolist()) == (("0", "1"), [0, 1])
