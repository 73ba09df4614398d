"""Keys, lists and strips of each language."""

import typing

import numpy as np
import pytest

from tests.support.keyboard import export_fakes
from tests.support.keyboard.export_fakes import LANGUAGE_WORDS, export
from tff_keyboard.config.sections.data_config import DataConfig
from tff_keyboard.data import vocabulary
from tff_keyboard.data.text import casing
from tff_keyboard.data.text.python_tokenizer import PythonTokenizer
from tff_keyboard_app.keyboard.autocorrect import Autocorrect
from tff_keyboard_app.keyboard.blocklist import Blocklist, packaged_entries
from tff_keyboard_app.keyboard.languages import LANGUAGES
from tff_keyboard_app.keyboard.misspellings import Misspellings
from tff_keyboard_app.keyboard.strip import AppKeyboard
from tflite_export.export.export_options import ExportOptions
from tflite_export.runtime.keyboard_predictor import KeyboardPredictor

ALPHABETS = {
    "en": "abcdefghijklmnopqrstuvwxyz",
    "de": "abcdefghijklmnopqrstuvwxyzäöüß",
    "es": "abcdefghijklmnñopqrstuvwxyzáéíóúü",
    "nl": "abcdefghijklmnopqrstuvwxyzáàçéëèêïíóöúü",
    "pt": "abcdefghijklmnopqrstuvwxyzáâãàçéêíóôõú",
    "tr": "aâbcçdefgğhıiîjklmnoöpqrsştuûüvwxyz",  # with q, w and x of addresses
}


def test_every_language_is_known_everywhere():
    config = typing.get_args(typing.get_type_hints(DataConfig)["language"])
    assert tuple(LANGUAGES) == vocabulary.LANGUAGES == config


@pytest.mark.parametrize("code", LANGUAGES)
def test_keys_are_the_alphabet(code):
    language = LANGUAGES[code]
    letters = language.letters
    assert sorted(letters) == sorted(ALPHABETS[code])
    assert len({casing.upper(letter, code) for letter in letters}) == len(letters)
    used = language.vowels + language.endings + language.forms + "".join(language.marked.values())
    assert set(used) <= set(letters)
    assert set(language.held) <= set("".join(language.keys))
    tokens = PythonTokenizer(vocabulary.NormalisationRules(language=code)).tokenize_one(
        language.example
    )
    assert set("".join(tokens)) <= {*letters, "-"}


@pytest.mark.parametrize(
    ("code", "common", "blocked"),
    [
        ("de", "hurra klasse wichtig kacheln passen tunnel spaß mongolei", "scheiße arschloch"),
        ("es", "concha pedir vergüenza computadora negro penetrar violar", "mierda gilipollas"),
        ("nl", "hoera negeren nicht pot naaien pijpen mongolen gat", "klootzak hoeren"),
        ("pt", "veado curso cuidado curar pinto portugal chupeta", "merda caralho"),
        ("tr", "götürmek sıçramak ama amca amaç yaramak sikke piyano tamam", "siktir göt"),
    ],
)
def test_blocklists_leave_common_words_alone(code, common, blocked):
    blocklist = Blocklist(packaged_entries(code))
    assert [word for word in common.split() if word in blocklist] == []
    assert all(word in blocklist for word in blocked.split())


def test_forms_of_a_word_are_no_misspellings():
    german = Misspellings({"kleine": 1000.0, "kleinem": 1.0, "konntr": 1.0}, LANGUAGES["de"])
    assert german.meant_by("kleinem") is None
    english = Misspellings({"kleine": 1000.0, "kleinem": 1.0})
    assert english.meant_by("kleinem") == "kleine"


def test_autocorrect_knows_the_letters_of_its_language():
    frequencies = {"für": 0.02, "schön": 0.01, "kleine": 0.01}
    words = vocabulary.Vocabulary(
        (*vocabulary.SPECIAL_WORDS, *frequencies), vocabulary.NormalisationRules(language="de")
    )
    row = np.array([0.0, 0.0, 0.1, 0.05, 0.3, 0.3, 0.2])
    german = Autocorrect(words, frequencies, language=LANGUAGES["de"])
    english = Autocorrect(words, frequencies)
    assert german.correct("fuer", row).word == "für"
    assert german.correct("schöb", row).word == "schön"
    assert english.correct("schöb", row) is None
    assert german.correct("kleinen", row) is None  # another form of "kleine"


@pytest.mark.parametrize(
    ("code", "typed", "meant"),
    [("es", "manana", "mañana"), ("es", "estacion", "estación"), ("es", "aqui", "aquí"),
     ("es", "habra", "habrá"), ("nl", "financiele", "financiële"), ("pt", "relacoes", "relações"),
     ("pt", "voce", "você"), ("pt", "tambem", "também")],
)  # fmt: skip
def test_a_space_adds_missing_marks(code, typed, meant):
    rules = vocabulary.NormalisationRules(language=code)
    words = vocabulary.Vocabulary((*vocabulary.SPECIAL_WORDS, meant), rules)
    row = np.array([0.0, 0.0, 0.1, 0.1, 0.3])
    actual = Autocorrect(words, {meant: 0.01}, language=LANGUAGES[code]).correct(typed, row)
    assert (actual.word, actual.is_sure) == (meant, True)


@pytest.fixture(scope="module", params=["de", "tr", "es", "nl"])
def keyboard(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    run = export_fakes.save_run(folder / "run", language=request.param)
    path = export(run, folder / "keyboard.tflite", ExportOptions()).paths.model
    return AppKeyboard(KeyboardPredictor(path))


def shown(keyboard, text):
    return [slot.word for slot in keyboard.keyboard_strip(text).slots if slot]


def test_strips_have_the_capitals_of_their_language(keyboard):
    assert keyboard.predictor.manifest.vocabulary.rules.language == keyboard.code
    words = set(LANGUAGE_WORDS[keyboard.code])
    first = shown(keyboard, "")
    assert first == [
        casing.capitalised(casing.lower(w, keyboard.code), keyboard.code) for w in first
    ]
    assert {casing.lower(word, keyboard.code) for word in first} <= words
    if keyboard.code == "tr":
        assert {"IŞIK", "IŞIKLAR"} <= set(shown(keyboard, "IŞI"))
        assert "İstiyorum" in shown(keyboard, "İst")
        assert {"ışık", "ışıklar"} <= set(shown(keyboard, "ışı"))
    elif keyboard.code == "es":
        assert "Único" in shown(keyboard, "¿Ú")
        assert shown(keyboard, "¿") == first
    elif keyboard.code == "nl":
        assert {"IJs", "IJsje"} & set(shown(keyboard, "IJ"))
        assert {"IJsje"} <= set(shown(keyboard, "Ijsj"))
    else:
        assert "STRAẞE" in shown(keyboard, "STRA")
        assert "Übermorgen" in shown(keyboard, "Üb")


def test_lists_can_be_turned_off_and_capitals_stay(keyboard):
    plain = AppKeyboard(keyboard.predictor, "none")
    assert plain.language is keyboard.language
    fragment, word = {
        "de": ("Üb", "Übermorgen"),
        "tr": ("İst", "İstiyorum"),
        "es": ("Ú", "Único"),
        "nl": ("Ijsla", "IJsland"),
    }[keyboard.code]
    assert shown(plain, fragment)[0] == word
