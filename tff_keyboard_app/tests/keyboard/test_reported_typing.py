"""Input from the issue trackers of other keyboards, typed with the shipped model.

AnySoftKeyboard #1188 and #3364, florisboard #489, #568 and #643, futo-org/android-keyboard #271,
#300, #464, #522, #781, #891, #957, #993, #1070, #1149, #1156, #1347, #1357, #1751, #1765, #2022,
#2044 and #2259, GrapheneOS #865, hackerskeyboard #221 and #478, HeliBoard #780, #844, #951, #1262,
#1559, #1739, #1811, #2000, #2150, #2162, #2317 and #2561, keyman #12648, openboard #312, #384 and
#425. Contractions by context, missing spaces, capitals of names, pairs of the owner and emoji have
tests of their own.
"""

import pathlib

import pytest

from tff_keyboard_app.keyboard.strip import AppKeyboard
from tff_keyboard_app.keyboard.typing_session import TypingSession
from tflite_export.runtime.hybrid_keyboard import open_keyboard

MODELS = pathlib.Path(__file__).parents[3] / "models"
BASE = MODELS / "base" / "keyboard.tflite"


@pytest.fixture(scope="module")
def keyboard():
    return AppKeyboard(open_keyboard(BASE))


@pytest.fixture(scope="module")
def german():
    return AppKeyboard(open_keyboard(MODELS / "base_de" / "keyboard.tflite"))


def sent(keyboard, text):
    """Returns the text after each word's space."""
    session = TypingSession()
    session.type(f"{text} ", keyboard)
    return session.text.removesuffix(" ")


def shown(keyboard, text):
    return {slot.word for slot in keyboard.keyboard_strip(text).slots if slot is not None}


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("the wether", "weather"),
        ("I wonder wether", "whether"),
        ("bigger then", "than"),
        ("going to loose", "lose"),
        ("thank your", "you"),
        ("I want to by", "buy"),
        ("me to", "too"),
    ],
)
def test_a_word_that_is_often_confused_is_offered_and_not_changed(keyboard, typed, meant):
    assert meant in shown(keyboard, typed)
    assert sent(keyboard, typed) == typed


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("thats", "that's"),
        ("Im", "I'm"),
        ("Ive", "I've"),
        ("cant", "can't"),
        ("wont", "won't"),
        ("dont", "don't"),
        ("youre", "you're"),
        ("couldnt", "couldn't"),
        ("see thr", "see the"),
        ("it is wich", "it is which"),
        ("it is thier", "it is their"),
        ("it is wierd", "it is weird"),
        ("it is beleive", "it is believe"),
        ("Wierd", "Weird"),
        ("Wierd. Theres no", "Weird. There's no"),
        ("a slingsoht", "a slingshot"),
        ("a breok", "a break"),
        ("take a brake", "take a break"),
        ("I wantbto type", "I want to type"),
        ("two ofthese", "two of these"),
        ("that's rightI've", "that's right I've"),
        ("see you lastMonday", "see you last Monday"),
        ("and the.winner", "and the winner"),
        ("I tryd", "I tried"),
        ("she tryed", "she tried"),
        ("she trys", "she tries"),
        ("she plaies", "she plays"),
        ("glorius", "glorious"),
        ("TEH", "THE"),
        ("THIER", "THEIR"),
        ("I DONT KNOW", "I DON'T KNOW"),
        ("SEE YOU TOMOROW", "SEE YOU TOMORROW"),
        ("I WILL BE THIER", "I WILL BE THEIR"),
        ("ALOT OF FUN", "A LOT OF FUN"),
        ("handschake", "handshake"),
        ("see teh\N{SMILING FACE WITH OPEN MOUTH}", "see the\N{SMILING FACE WITH OPEN MOUTH}"),
    ],
)
def test_a_space_corrects(keyboard, typed, expected):
    assert sent(keyboard, typed) == expected


@pytest.mark.parametrize(
    "typed",
    ["top-down", "bottom-up", "co car kot", "TH", "THan", "HEl", "di", "us", "it", "pc", "the thr"],
)
def test_a_space_leaves_the_word(keyboard, typed):
    assert sent(keyboard, typed) == typed


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("anim", "animal"),
        ("excell", "excellent"),
        ("influen", "influence"),
        ("hospi", "hospital"),
        ("connec", "connect"),
        ("curta", "curtains"),
        ("TH", "THE"),
        ("THan", "Thank"),
        ("HEl", "Hello"),
        ("on mond", "Monday"),
        ("the thr", "three"),
        ("a kuybeord", "keyboard"),
        ("I said tath", "that"),
        ("he buies", "buys"),
        ("he is lieing", "lying"),
        ("I live in Finlandand", "Finland and"),
        ("i need accesss", "access"),
        ("oh hellooo", "hello"),
    ],
)
def test_a_beginning_is_completed(keyboard, typed, offered):
    assert offered in shown(keyboard, typed)


@pytest.mark.parametrize(
    "typed",
    [
        "we run OpenBSD and NetBSD",
        "my iPhone is on eBay",
        "open readme.txt in node.js",
        "text me when u get home ur cool",
        "btw lol idk tbh",
        "our knobs and a nut",
        "haven’t isn’t ‘slow’ 'slow'",
        "write to jhon.smith@mail.com",
        "see teh.com, recieve.org and dont.net",
        "https://exmaple.org/teh www.gogle.com",
        "is it you? see you! ok.",
        "That is when we switch to this, correctly",
        "then the cat said no because of that",
        "it is 5kg, 10in or 100km at 7pm on the 3rd",
        "is:issue has:attachment",
        "this makes me sad :( ok ;) so :D",
        "the TEH committee of KPMG and UNHCR",
        "ASAP FYI BTC",
        "GDPR",
        "see it, i.e. now, e.g. this",
        "the bs is ok btw",
        "coffee on Wed",
        "I woulda gone, coulda, shoulda",
        "I'll venmo you, yeet",
    ],
)
def test_slang_quotes_and_addresses_stay(keyboard, typed):
    assert sent(keyboard, typed) == typed


def test_i_before_a_full_stop(keyboard):
    session = TypingSession()
    session.type("so am i.", keyboard)
    assert session.text == "so am I."


@pytest.mark.parametrize("text", ["pens, paper etc. ", "use a tool, i.e. ", "about approx. "])
def test_no_capital_after_an_abbreviation(keyboard, text):
    assert any(word.islower() for word in shown(keyboard, text))


def test_no_capitals_inside_a_sentence(keyboard):
    for text in ("we saw the ", "then t", "and b"):
        assert all(word.islower() for word in shown(keyboard, text))


@pytest.mark.parametrize("text", ["somnam", "it was somnam"])
def test_completions_begin_with_the_letters_or_are_near(keyboard, text):
    assert {"somnambulist", "somnambulism"} <= shown(keyboard, text)


def test_a_word_directly_after_the_cursor_stays(keyboard):
    """HeliBoard #1534 and #1774."""
    slots = [slot for slot in keyboard.keyboard_strip("hel", "there you are").slots if slot]
    assert "help" in {slot.word for slot in slots}
    assert {slot.replaces_after for slot in slots} == {0}
    slots = [slot for slot in keyboard.keyboard_strip("hel", "lo there").slots if slot]
    assert {slot.replaces_after for slot in slots} == {3}  # "lo" and its space


def test_suggestion_for_an_earlier_word_leaves_one_space(keyboard):
    before, after = "The floo", "r is yours"
    slot = keyboard.keyboard_strip(before, after).slots[1]
    assert slot.applied_to(before) + after[slot.replaces_after :] == "The floor is yours"


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("he said \u201cteh\u201d", "he said \u201cthe\u201d"),
        ('he said "teh"', 'he said "the"'),
        ('"teh", she said', '"the", she said'),
        ('i"', 'I"'),
        ("he said \u201eteh\u201c", "he said \u201ethe\u201c"),
        ('he is 6\'2" and a 5" hole, "it\'s" or \'it\', "gr8t" 15"', None),
        ('say "hello" and "I don\'t"', None),
        ("so teh\u2026", "so the\u2026"),
        ("I like teh<3", "I like the<3"),
        ("in teh-", "in the-"),
        ("I like teh\U0001f1e9\U0001f1ea", "I like the\U0001f1e9\U0001f1ea"),
        ("well-known e-mail x-ray up-to-date T-shirt co-op-", None),
    ],
)
def test_other_marks_end_a_word(keyboard, typed, expected):
    session = TypingSession()
    session.type(typed, keyboard)
    assert session.text == (expected or typed)


def test_turkey_is_a_country_or_a_bird(keyboard):
    assert "\U0001f983" not in shown(keyboard, "I live in turkey ")


@pytest.mark.parametrize("typed", ["fu", "bist fu", "da fu", "icj"])
def test_a_short_slip_is_offered_next_to_marked_completions(german, typed):
    assert {"du", "ich"} & shown(german, typed)


def test_a_rare_marked_word_does_not_hide_a_likelier_slip(german):
    assert "heute" in shown(german, "haute")
    assert sent(german, "haute") == "haute"


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("Ich weiß, daß", "Ich weiß, dass"),
        ("ich muß gehen", "ich muss gehen"),
        ("er wußte ein bißchen", "er wusste ein bisschen"),
        ("kan ich", "kann ich"),
        ("ich kan", "ich kann"),
        ("es ist warscheinlich so", "es ist wahrscheinlich so"),
        ("Rythmus", "Rhythmus"),
        ("sehr frölich", "sehr fröhlich"),
        ("sonnst", "sonst"),
    ],
)
def test_german_spelling_is_corrected(german, typed, expected):
    assert sent(german, typed) == expected


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("kan", "kann"), ("erlich", "ehrlich"), ("naß", "nass"), ("ein Faß", "Fass")],
)
def test_german_spelling_is_offered(german, typed, offered):
    assert offered in shown(german, typed)


@pytest.mark.parametrize(
    "typed",
    ["der Fuß und die Straße", "die Außenwirkung", "maßgeblich", "viel Spaß", "wen hast du"],
)
def test_right_german_words_stay(german, typed):
    assert sent(german, typed) == typed
