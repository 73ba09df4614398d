"""The strip around a hybrid keyboard: blocked words, capitals, typos and the owner's words."""

import pytest

from tests.support.keyboard import export_fakes, hybrid_export
from tests.support.keyboard.export_fakes import export
from tests.tflite_export.runtime.test_tail import part
from tff_keyboard_app.keyboard.strip import AppKeyboard
from tflite_export.export.export_options import ExportOptions
from tflite_export.runtime.hybrid_keyboard import open_keyboard


@pytest.fixture
def keyboard(hybrid):
    return hybrid


@pytest.fixture(scope="module", params=["network", "hybrid"])
def with_tail(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    run = export_fakes.save_run(folder / "run")
    ngram = hybrid_export.part() if request.param == "hybrid" else None
    result = export(run, folder / "k.tflite", ExportOptions(), ngram=ngram, tail=part())
    return open_keyboard(result.paths.model)


def shown(strip):
    return [slot.word for slot in strip.slots if slot]


def test_manners_hold_for_the_owners_words(keyboard):
    for message in [["see", "heckbox"], ["see", "latr"], ["see", "johann"]]:
        keyboard.learn(message)
        keyboard.learn(message)
    polite = AppKeyboard(keyboard, "en", ["heck*"])
    assert "johann" in shown(polite.keyboard_strip("see "))
    assert "heckbox" not in shown(polite.keyboard_strip("see he"))
    assert polite.withheld > 0
    assert shown(polite.keyboard_strip("j")) == ["johann"]
    assert shown(polite.keyboard_strip("J")) == ["Johann"]


def test_a_slip_gives_its_place_unless_its_owner_prefers_it(keyboard):
    polite = AppKeyboard(keyboard, "en")
    keyboard.learn(["see", "you", "laterr"])
    keyboard.learn(["see", "you", "later"])
    assert "laterr" not in shown(polite.keyboard_strip("see you late"))
    for _ in range(3):
        keyboard.learn(["see", "you", "laterr"])
    assert "laterr" in shown(polite.keyboard_strip("see you late"))


def test_a_slip_is_corrected_to_the_owners_word_and_the_word_to_nothing(keyboard):
    polite = AppKeyboard(keyboard, "en")
    assert polite.keyboard_strip("see johnan").correction is None
    for _ in range(6):
        keyboard.learn(["see", "johann"])
    correction = polite.keyboard_strip("see johnan").correction
    assert correction is not None
    assert correction.word == "johann"
    assert polite.keyboard_strip("see johann").correction is None


def test_the_strip_offers_and_leaves_what_is_a_word(with_tail):
    manners = AppKeyboard(with_tail)
    words = [slot.word for slot in manners.keyboard_strip("see qui").slots if slot]
    assert words[1:2] == ["quilt"] or "quince" in words
    assert manners.keyboard_strip("see zebra").correction is None
    # One letter from a common word, and ten thousand times rarer: never offered.
    shown = [slot.word for slot in manners.keyboard_strip("see tommorr").slots if slot]
    assert "tommorrow" not in shown
