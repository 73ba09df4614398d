"""Marks that people leave out, typed with the shipped models.

Rows of the issue trackers of other keyboards: AnySoftKeyboard #874 and #941, DictateKeyboard #219,
dictus-ios #287, #326 and #327, florisboard #840 and #1882, futo-org/android-keyboard #132,
LanguageTool #3608, openboard #522, umlauter #3 and wmkeyboard #215.
"""

import functools
import pathlib

import pytest

from tff_keyboard_app.keyboard.missing_spaces import JOINED
from tff_keyboard_app.keyboard.strip import AppKeyboard
from tff_keyboard_app.keyboard.typing_session import TypingSession
from tflite_export.runtime.hybrid_keyboard import open_keyboard

MODELS = pathlib.Path(__file__).parents[3] / "models"


@functools.cache
def keyboard(code):
    return AppKeyboard(open_keyboard(MODELS / f"base_{code}" / "keyboard.tflite"))


def typed_into(session, code, text):
    session.type(text, keyboard(code))
    return session.text


def sent(code, text):
    """Returns the text after each word's space."""
    return typed_into(TypingSession(), code, f"{text} ").removesuffix(" ")


def shown(code, text):
    return {slot.word for slot in keyboard(code).keyboard_strip(text).slots if slot is not None}


@pytest.mark.parametrize(
    ("code", "typed", "expected"),
    [
        ("es", "informacion nino compania clasica", "información niño compañía clásica"),
        ("es", "la manana", "la mañana"),
        ("es", "aqui despues tambien", "aquí después también"),
        ("es", "habia", "había"),
        ("es", "mi corazon", "mi corazón"),
        ("es", "los numeros", "los números"),
        ("es", "que dificil", "que difícil"),
        ("es", "musica", "música"),
        ("es", "verguenza pinguino", "vergüenza pingüino"),
        ("es", "cafe", "café"),
        ("es", "hace dos anos", "hace dos años"),
        ("es", "el sabe", "él sabe"),
        ("es", "Que haces", "Qué haces"),
        ("pt", "mae", "mãe"),
        ("pt", "nao sei", "não sei"),
        ("pt", "sao", "são"),
        ("pt", "ate logo", "até logo"),
        ("pt", "eu ja fui", "eu já fui"),
        ("pt", "minha relacao", "minha relação"),
        ("pt", "voce", "você"),
        ("pt", "quero agua", "quero água"),
        ("pt", "facil historia", "fácil história"),
        ("pt", "isso e bom", "isso é bom"),
        ("de", "fuer dich", "für dich"),
        ("de", "fur dich", "für dich"),
        ("de", "ueber uns", "über uns"),
        ("de", "auf der Strasse", "auf der Straße"),
        ("de", "sehr gross", "sehr groß"),
        ("de", "es ist heiss", "es ist heiß"),
        ("de", "das heisst", "das heißt"),
        ("de", "ich weiss nicht", "ich weiß nicht"),
        ("de", "Maedchen schoen koennen groesser", "Mädchen schön können größer"),
        ("tr", "guzel", "güzel"),
        ("tr", "bu degil", "bu değil"),
        ("tr", "nasilsin", "nasılsın"),
        ("tr", "hayir tesekkurler", "hayır teşekkürler"),
        ("tr", "cocuk gunaydin simdi", "çocuk günaydın şimdi"),
        ("tr", "zavalliyi", "zavallıyı"),  # a form that no list has
        ("nl", "de financiele ideeen", "de financiële ideeën"),
    ],
)
def test_a_space_adds_missing_marks(code, typed, expected):
    assert sent(code, typed) == expected


@pytest.mark.parametrize(
    ("code", "typed"),
    [
        ("es", "el gato"),
        ("es", "si quieres"),
        ("es", "que el perro coma"),
        ("es", "papa"),
        ("pt", "o pai e a mãe"),
        ("pt", "dois anos"),
        ("de", "ich muss drucken"),
        ("de", "ich bin schon da"),
        ("de", "wir mussten gehen"),
        ("de", "manuell aktuell genauer"),
        ("de", "die Masse"),
        ("de", "Könnten Straße Verfügung Änderungen schön groß Öl würde"),
        ("tr", "sahil"),
        ("tr", "kar yağıyor"),
        ("nl", "een van de"),
    ],
)
def test_right_words_that_look_unmarked_stay(code, typed):
    assert sent(code, typed) == typed


@pytest.mark.parametrize(
    ("code", "typed", "offered"),
    [
        ("es", "creo que si", "sí"),
        ("es", "el", "él"),
        ("es", "que", "qué"),
        ("pt", "e", "é"),
        ("pt", "la", "lá"),
        ("de", "schon", "schön"),
        ("de", "musste", "müsste"),
        ("tr", "kar", "kâr"),
        ("nl", "een", "één"),
    ],
)
def test_the_other_right_word_is_offered(code, typed, offered):
    assert offered in shown(code, typed)
    assert sent(code, typed) == typed


def test_a_word_corrected_with_the_next_one_is_taken_back_with_it():
    session = TypingSession()
    assert typed_into(session, "es", "el sabe ") == "él sabe "
    session.backspace()
    assert session.text == "el sabe "
    assert typed_into(session, "es", "todo ") == "el sabe todo "


def test_marks_that_were_taken_back_stay_away_after_the_next_word():
    session = TypingSession()
    typed_into(session, "pt", "isso nao ")
    session.backspace()
    assert typed_into(session, "pt", "quero ") == "isso nao quero "


def test_both_words_are_corrected_if_the_second_one_decides():
    assert sent("pt", "isso e facil") == "isso é fácil"


@pytest.mark.parametrize(
    ("code", "typed", "word"),
    [
        ("es", "la solu", "solución"),
        ("es", "Enséñame co", "cómo"),
        ("pt", "meu cora", "coração"),
        ("de", "im nach", "nächsten"),
        ("de", "in die Ho", "Höhle"),
        ("tr", "onu güçten dus", "düştü"),
        ("tr", "bana pazartesi ogl", "öğleden"),
        ("tr", "bu cok guz", "güzel"),
    ],
)
def test_words_are_completed_through_their_marks(code, typed, word):
    assert word in shown(code, typed)


@pytest.mark.parametrize(
    ("code", "typed", "no_word"),
    [("es", "no se pue", "pué"), ("es", "Enséñame co", "Có"), ("tr", "Avrupa i", "ı")],
)
def test_an_unfinished_word_is_not_taken_for_a_rare_marked_one(code, typed, no_word):
    assert no_word not in shown(code, typed)


@pytest.mark.parametrize(
    ("code", "typed", "words"),
    [
        (code, typed, words)
        for code, table in JOINED.items()
        if code != "en"
        for typed, words in table.items()
    ],
)
def test_words_that_many_people_write_as_one_are_split(code, typed, words):
    assert sent(code, typed) == words


@pytest.mark.parametrize(
    ("code", "typed"),
    [
        ("pt", "foi pro"),
        ("pt", "pro meu pai"),
        ("es", "hola parce"),
        ("nl", "hbd man"),
        ("de", "ich hab nen plan"),
        ("tr", "tmm kanka"),
    ],
)
def test_everyday_words_stay(code, typed):
    assert sent(code, typed) == typed
