"""Advice: arithmetic of rounds and minutes, the nearest corpora, a command that can be given."""

import json
import math
import pathlib
import shlex

import hypothesis
import pytest
from hypothesis import strategies as st

from tasks import cli
from tasks.data import advise as advise_task
from tests.support.examples import examples
from tff_keyboard import config as config_lib
from tff_keyboard.config.sections.cohort_config import clients_in_round
from tff_keyboard.config.sections.train_config import TrainConfig
from tff_keyboard.study.advice import advice, recipes, reference
from tff_keyboard.study.advice.advice_text import advice_text, unused_workdir


def card(people=500, messages=40_000, words=600_000, oov_rate=0.05, **vocabulary):
    train = {"clients": people, "messages": messages, "words": words, "oov_rate": oov_rate}
    low = 1 << ((messages // people).bit_length() - 1)
    train["messages_per_client"] = {"bins": {f"{low}-{2 * low - 1}": people}}
    usual = {"from": "train users", "min_word_users": 2}
    return {"populations": {"train": train}, "vocabulary": usual | vocabulary}


@hypothesis.given(
    people=st.integers(3, 20_000),
    messages=st.integers(1, 300),
    words=st.integers(1, 40),
    cores=st.integers(1, 64),
)
@examples(100)
def test_rounds_are_so_many_passes_and_time_is_what_clients_cost(people, messages, words, cores):
    given = card(people, people * messages, people * messages * words)
    found = advice.advise(given, cores=cores)
    much = people * messages * words >= 1e6
    recipe = found.recipe
    assert recipe == (recipes.MUCH_TEXT if much else recipes.LITTLE_TEXT)
    of_a_visit = min(messages, 8)  # all have typed alike
    assert found.clients_per_round == max(1, min(16, people // 4))
    a_round = found.clients_per_round * of_a_visit
    assert found.passes == pytest.approx(found.rounds * a_round / (people * messages))
    assert found.rounds >= 300
    if found.rounds > 300:
        assert 6 - 1e-9 <= found.passes < 6 + a_round / (people * messages) + 1e-9
    else:
        assert found.passes >= 6 - 1e-9
    cpu = found.clients_per_round * (0.0073 + 0.00017 * of_a_visit * (words + 1))
    assert found.minutes == pytest.approx(found.rounds * (0.05 + cpu / cores) / 60)


@pytest.mark.parametrize(
    "words, recipe", [(2_000_000, recipes.MUCH_TEXT), (500_000, recipes.LITTLE_TEXT)]
)
def test_text_is_trained_as_its_recipe_says(words, recipe):
    given = advice.advise(card(people=14_000, messages=200_000, words=words), cores=2)
    config = config_lib.load(given.recipe.config, given.overrides("s"))
    assert given.recipe == recipe
    assert config.train.check_in == "by_text"
    assert config.train.check_in_factor == TrainConfig.check_in_factor
    assert config.client.max_examples == given.recipe.max_examples
    assert clients_in_round(config.train.cohort, 16, given.rounds) == given.clients_per_round
    assert config.server.schedule.rounds == config.train.rounds == given.rounds


def test_the_nearest_in_size_are_shown():
    found = advice.advise(card(words=310_000), cores=2)
    sizes = [corpus.words for corpus in found.nearest]
    assert sizes == sorted(sizes)
    assert len(sizes) == 3
    assert {283_846, 299_902} < set(sizes)
    far = {corpus.words for corpus in reference.corpora()} - set(sizes)
    distance = [abs(math.log(size / 310_000)) for size in sizes]
    assert all(abs(math.log(size / 310_000)) >= max(distance) for size in far)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (card(words=19_000), "n-gram"),
        (card(words=90_000), "general model"),
        (card(words=300_000), "general model"),
        (card(people=99), "99 train people"),
        (card(oov_rate=0.2), "20% of the train words"),
    ],
)
def test_what_is_noted(given, says):
    (warning,) = advice.advise(given, cores=2).warnings
    assert says in warning


def test_cores_are_counted():
    assert advice.advise(card(), cores=2).warnings == ()
    with pytest.raises(ValueError, match="cores"):
        advice.advise(card(), cores=0)


def test_the_command_can_be_given(tmp_path, capsys):
    (tmp_path / "my store").mkdir()
    whole = card() | {"format": 1, "file_bytes": {}, "store_sha256": "0"}
    (tmp_path / "my store" / "data_card.json").write_text(json.dumps(whole))
    assert cli.launch(advise_task, [str(tmp_path / "my store"), "--cores=2"]) == cli.OK
    shown = capsys.readouterr().out
    assert "PersuasionForGood" in shown
    (command,) = [line for line in shown.splitlines() if "tff-keyboard train" in line]
    words = shlex.split(command)
    overrides = [word.removeprefix("--set=") for word in words if word.startswith("--set=")]
    config = config_lib.load(recipes.LITTLE_TEXT.config, overrides)
    assert config.data.store == str(tmp_path / "my store")
    assert config.train.clients_per_round == 16
    assert config.client.max_examples == recipes.LITTLE_TEXT.max_examples
    assert config.train.rounds == config.server.schedule.rounds
    workdir = "runs/my store"
    found = advice.advise(whole, cores=2)
    assert advice_text(found, str(tmp_path / "my store"), workdir) == shown.rstrip()
    assert f"--workdir={workdir}" in words


def test_a_new_run_directory_is_proposed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = pathlib.Path("data/demo")
    assert unused_workdir(store) == pathlib.Path("runs/demo")
    for name in ("demo", "demo_2"):
        pathlib.Path("runs", name).mkdir(parents=True)
    assert unused_workdir(store) == pathlib.Path("runs/demo_3")


def test_no_store_is_one_line(tmp_path, capsys):
    assert cli.launch(advise_task, [str(tmp_path)]) == 3
    assert "is not a client store" in capsys.readouterr().err
