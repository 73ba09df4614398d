"""`play` with models of two languages: one strip in the terminal and on the page."""

import io
import json
import sys

import pytest

from tests.support.keyboard import export_fakes
from tests.support.keyboard.export_fakes import export
from tff_keyboard.command_line import cli
from tff_keyboard_app import MultilingualKeyboard
from tff_keyboard_app.commands import play as play_task
from tff_keyboard_app.keyboard import cache_file
from tff_keyboard_app.tests.support import keyboard_browser
from tflite_export.export.export_options import ExportOptions


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("languages")
    paths = []
    for code in ("en", "de", "es"):
        run = export_fakes.save_run(folder / f"run {code}", language=code)
        paths.append(export(run, folder / f"{code}.tflite", ExportOptions()).paths.model)
    return paths


@pytest.fixture(scope="module")
def second_english(tmp_path_factory):
    folder = tmp_path_factory.mktemp("english")
    run = export_fakes.save_run(folder / "run", seed=2)
    return export(run, folder / "second.tflite", ExportOptions()).paths.model


def play_in_terminal(monkeypatch, keys, *arguments):
    """Runs `play --terminal` with keys from a pipe, and returns its exit code."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(keys))
    return cli.launch(play_task, ["--terminal", *map(str, arguments)])


def test_one_strip_in_the_terminal(models, monkeypatch, capsys, tmp_path):
    cache = tmp_path / "words.cache"
    strip = MultilingualKeyboard.open(models[:2]).keyboard_strip("see you übermor")
    assert strip.words
    keys = "see you übermor\t\nzbigniew zbigniew\n"
    assert play_in_terminal(monkeypatch, keys, *models[:2], f"--cache={cache}") == cli.OK
    assert f"> see you {strip.words[0]} " in capsys.readouterr().out
    assert "zbigniew" in cache_file.load(cache).words


def test_three_languages(models, monkeypatch, capsys):
    assert play_in_terminal(monkeypatch, "see\n", *models) == cli.OK
    assert "> see" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("order", "flags", "message"),
    [
        ([0, 1, 3], [], "Two of the models have the same language (en, de, en)."),
        ([0, 1], ["--language=en"], "--language does not go with models of several languages"),
        ([0, 1], ["--events=log.json"], "--events does not go with models of several languages"),
    ],
)
def test_what_does_not_go_together_is_one_line(
    models, second_english, monkeypatch, capsys, tmp_path, order, flags, message
):
    monkeypatch.chdir(tmp_path)
    paths = [*models, second_english]
    arguments = [*(paths[number] for number in order), *flags]
    assert play_in_terminal(monkeypatch, "see\n", *arguments) == cli.USAGE
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


class TestPage:
    pytestmark = keyboard_browser.NEEDS_BROWSER

    @pytest.fixture(scope="class")
    def driver(self, tmp_path_factory):
        with keyboard_browser.browser(tmp_path_factory.mktemp("profile")) as driver:
            yield driver

    def test_one_strip_and_learnt_words(self, driver, models):
        expected = MultilingualKeyboard.open(models[:2])
        with keyboard_browser.served_here(*models[:2]) as address:
            page = keyboard_browser.Page(driver, address)
            page.write("Überm")
            assert [word for word in page.strip() if word] == [
                slot.word for slot in expected.keyboard_strip("Überm").slots if slot is not None
            ]
            page.write("\n")
            page.write("zbigniew zbigniew\n")
            page.type("o")
            page.wait("document.querySelectorAll('#own-words button').length >= 1", "not learnt")
            facts = driver.execute_script("return fetch('api/models').then(r => r.text())")
            (name,) = [model["name"] for model in json.loads(facts)["models"]]
            assert " + " in name
            assert page.errors() == []
