"""When a word becomes the user's own, with the shipped model."""

import pathlib

import pytest

from tff_keyboard_app.keyboard import terminal_keyboard
from tff_keyboard_app.keyboard.personal_dictionary import DOUBTED_USES
from tff_keyboard_app.keyboard.strip import AppKeyboard
from tff_keyboard_app.keyboard.user_history import UserHistory
from tflite_export.runtime.hybrid_keyboard import open_keyboard

SLIPS = {
    "yuo": "you",
    "tonigt": "tonight",
    "hapy": "happy",
    "becuase": "because",
    "tomorow": "tomorrow",
    "teh": "the",
    "wnat": "what",
    "srry": "sorry",
}


@pytest.fixture(scope="module")
def opened():
    keyboard = open_keyboard(pathlib.Path("models/messages/keyboard.tflite"))
    return AppKeyboard(keyboard)


@pytest.fixture
def keyboard(opened):
    opened.predictor.cache.forget_all()
    yield opened
    opened.predictor.cache.forget_all()


@pytest.fixture
def owner(keyboard):
    return UserHistory([keyboard.predictor], keyboard.predictor.cache)


def typed(keyboard, owner, text):
    """Returns the terminal's output, and the messages that were sent."""
    keys, screen = iter(text), []
    session = terminal_keyboard.run(keyboard, lambda: next(keys, ""), screen.append, owner)
    return "".join(screen), session.messages


def shown(keyboard, text):
    return [slot.word for slot in keyboard.keyboard_strip(text).slots if slot]


def corrected(keyboard, text):
    actual = keyboard.keyboard_strip(text).correction
    return actual and actual.word


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("slip", ["yuo", "tonigt", "hapy", "becuase", "tomorow"])
def test_a_slip_that_was_sent_stays_corrected_and_is_not_offered(keyboard, owner, slip, times):
    before = corrected(keyboard, f"ok {slip}")
    assert before == SLIPS[slip]
    for _ in range(times):
        owner.learn(f"ok {slip}")
    assert corrected(keyboard, f"ok {slip}") == before
    assert slip not in shown(keyboard, "ok ")
    assert slip not in shown(keyboard, f"ok {slip[:-1]}")
    assert not keyboard.offers(slip)


@pytest.mark.parametrize("often", [3, 10, 40])
def test_the_word_that_is_typed_more_often_wins(keyboard, owner, often):
    for _ in range(often):
        owner.learn("how are you")
    for _ in range(max(1, often // 17)):
        owner.learn("see yuo")
    assert corrected(keyboard, "see yuo") == "you"
    assert "yuo" not in shown(keyboard, "see ")
    for _ in range(DOUBTED_USES):  # still less often than "you"
        owner.learn("see yuo")
    assert keyboard.offers("yuo") == (often < DOUBTED_USES)


@pytest.mark.parametrize("slip", SLIPS)
def test_a_correction_that_was_taken_back_is_not_made_again(keyboard, owner, slip):
    owner.learn(f"ok {slip}", exempt_words=[slip])
    assert corrected(keyboard, f"ok {slip}") is None
    owner.forget(slip)
    owner.learn(f"ok {slip}", exempt_words=["another"])
    keyboard.predictor.cache.forget(["another"])
    assert keyboard.predictor.cache.exempt_words == set()


@pytest.mark.parametrize(("slip", "meant"), [("hanjs", "hangs"), ("tanjs", "thanks")])
def test_a_slip_that_was_kept_once_is_not_the_correction_of_others(keyboard, owner, slip, meant):
    assert corrected(keyboard, slip) == meant
    _, messages = typed(keyboard, owner, "thanjs \x7f\n")
    assert messages == ["thanjs"]
    assert corrected(keyboard, "thanjs") is None
    assert corrected(keyboard, slip) == meant
    owner.learn("thanjs")
    assert corrected(keyboard, slip) == "thanjs"  # two uses: a word of its owner


def test_a_name_has_the_capital_with_which_it_was_typed(keyboard, owner):
    for _ in range(2):
        owner.learn("I use Kagi, and met Wanjiru")
    assert "Kagi" in shown(keyboard, "i use kag")
    assert ("Kagi", 2) in owner.personal_dictionary()
    assert keyboard.offers("Kagi")
    assert corrected(keyboard, "with wanjirv") == "Wanjiru"
    assert keyboard._form("wanjiru's") == "Wanjiru's"
    owner.forget("kagi")
    assert not {"Kagi", "kagi"} & set(shown(keyboard, "i use kag"))


def test_a_known_word_needs_more_than_one_capital(keyboard, owner):
    owner.learn("ask Will")
    assert keyboard._form("will") == "will"
    owner.learn("ask Will")
    assert keyboard._form("will") == "Will"
    for _ in range(2):
        owner.learn("he will go")
    assert keyboard._form("will") == "will"


def test_a_form_of_another_word_in_a_file_is_not_shown(keyboard, owner):
    for _ in range(2):
        owner.learn("ask zozo")
    keyboard.predictor.cache.forms["zozo"] = {"evil": 1}
    assert keyboard._form("zozo") == "zozo"


def test_a_name_is_learnt_by_its_second_use_and_forgotten(keyboard, owner):
    owner.learn("see fatma")
    assert not keyboard.offers("fatma")
    assert "fatma" not in shown(keyboard, "see fat")
    owner.learn("see fatma")
    assert keyboard.offers("fatma")
    assert "fatma" in shown(keyboard, "see fat")
    assert ("fatma", 2) in owner.personal_dictionary()
    owner.forget("fatma")
    assert "fatma" not in shown(keyboard, "see fat")
    assert owner.personal_dictionary() == []


def test_a_doubted_word_that_is_typed_often_is_the_owners(keyboard, owner):
    for _ in range(DOUBTED_USES - 1):
        owner.learn("ok hapy")
    assert not keyboard.offers("hapy")
    owner.learn("ok hapy")
    assert keyboard.offers("hapy")


@pytest.mark.parametrize(
    "text", ["yuo", "see tonigt", "ok hapy", "i becuas", "see tomorow", "ok whn"]
)
def test_no_place_is_empty_behind_three_letters(keyboard, text):
    words = shown(keyboard, text)
    assert len(words) == len({word.lower() for word in words}) == 3
    if keyboard.keyboard_strip(text).correction:
        assert text.split()[-1] in words  # and may be declined beforehand


def test_a_blocked_word_fills_no_place(keyboard):
    assert "fuckk" not in shown(keyboard, "ok fuck")
    assert "fuck" not in shown(keyboard, "ok fuck")


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("see yuo!", "see you!"),
        ("see you tonigt?", "see you tonight?"),
        ("dinner tonigt, then home", "dinner tonight, then home"),
        ("(my freind) ok", "(my friend) ok"),
        ("i woudl... ok", "I would... ok"),
    ],
)
def test_a_slip_before_punctuation_is_corrected_and_not_learnt(keyboard, owner, text, sent):
    _, messages = typed(keyboard, owner, f"{text}\r")
    assert messages == [sent]
    assert owner.personal_dictionary() == []


@pytest.mark.parametrize("name", ["Jim", "Sven", "Karla"])
def test_capitalised_word_inside_a_sentence_is_a_name(keyboard, owner, name):
    for _ in range(10):
        owner.learn("call Marla now")
    _, messages = typed(keyboard, owner, f"see {name}\rcall {name} now\r")
    assert messages == [f"see {name}", f"call {name} now"]
    assert corrected(keyboard, "see Tonigt") == "Tonight"
    assert corrected(keyboard, "see Mondya") == "Monday"


@pytest.mark.parametrize("start", ["@", "#", "\\", "_", "C:\\", "/", "see:", "http://a.b/c."])
def test_word_next_to_a_sign_is_not_corrected(keyboard, start):
    assert corrected(keyboard, f"ok {start}hapy") is None
    assert corrected(keyboard, f"ok {start} (hapy") == "happy"


@pytest.mark.parametrize(
    ("before", "slip", "meant"),
    [("in", "teh", "the"), ("i", "thnk", "think")],
)
def test_a_slip_of_the_table_stays_corrected(keyboard, owner, before, slip, meant):
    text = f"{before} {slip}"
    assert corrected(keyboard, text) == meant
    for _ in range(DOUBTED_USES - 1):
        owner.learn(text)
        assert corrected(keyboard, text) == meant
    owner.learn(text)
    assert corrected(keyboard, text) is None  # typed often, and never the other
    for _ in range(DOUBTED_USES):
        owner.learn(f"{before} {meant}")
    assert corrected(keyboard, text) == meant


def test_uses_are_compared_with_the_form_that_is_shown(keyboard, owner):
    for _ in range(DOUBTED_USES):
        owner.learn("i dontt")
        owner.learn("i don't")
    assert not keyboard.offers("dontt")
    assert corrected(keyboard, "i dontt") == "don't"


def test_command_is_not_corrected_and_reports_its_effect(keyboard, owner):
    for _ in range(2):
        owner.learn("see yuo and hapy bob")
    screen, _ = typed(keyboard, owner, "/forget yuo hapy zorb yuo\r")
    assert "Forgotten: yuo, hapy. Not remembered: zorb." in screen
    assert [word for word, _ in owner.personal_dictionary()] == ["bob"]
    assert "Unknown command." in typed(keyboard, owner, "/forgte bob\r")[0]
    _, messages = typed(keyboard, None, "/forget hapy\r")  # a text like any other
    assert messages == ["/forget happy"]


def test_a_pair_that_was_typed_three_times_is_on_the_strip():
    base = AppKeyboard(open_keyboard(pathlib.Path("models/base/keyboard.tflite")))
    owner = UserHistory([base.predictor], base.predictor.cache)

    def shown(text):
        return {slot.word.lower() for slot in base.keyboard_strip(text).slots if slot is not None}

    for uses in (1, 2):
        owner.learn("Hello Zbigniew")
        assert "zbigniew" not in shown("hello "), uses
    owner.learn("Hello Zbigniew")
    assert "zbigniew" in shown("hello ")
    assert "zbigniew" in shown("Hello zb")
    assert "zbigniew" not in shown("hello t")
    owner.forget("Zbigniew")
    assert "zbigniew" not in shown("hello ")
    for _ in range(3):
        owner.learn("see you again")
    for _ in range(20):  # "you" is followed by other words now
        owner.learn("see you and me")
    assert "again" not in shown("do you ")
