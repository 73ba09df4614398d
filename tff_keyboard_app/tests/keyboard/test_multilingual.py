"""One strip of several languages: beliefs, suggestions, corrections and learnt words.

NumPy or plain Python computes the expected beliefs and scores. The shipped models show that a right
word of one language is not changed by the other one.
"""

import itertools
import math
import threading
import types

import numpy as np
import pytest

from tff_keyboard.data.text import casing
from tff_keyboard.predictors.hybrid.word_cache import WordCache
from tff_keyboard.storage import shipped_files
from tff_keyboard_app import MultilingualKeyboard, TypingSession
from tff_keyboard_app.keyboard import multilingual
from tff_keyboard_app.keyboard.languages import LANGUAGES
from tff_keyboard_app.keyboard.strip import AppKeyboard, ScoredStrip
from tff_keyboard_app.keyboard.typing_session import Slot
from tff_keyboard_app.keyboard.user_history import UserHistory
from tflite_export.runtime.hybrid_keyboard import open_keyboard


class Fake:
    """A keyboard with the given frequencies of words, the first of which are common."""

    def __init__(self, frequencies, common=(), ranked=(), correction=None, code="en"):
        self.code, self.language, self.withheld = code, LANGUAGES[code], 0
        self.touches = []
        self._frequencies, self._common = frequencies, common
        self._strip = ScoredStrip(tuple(ranked), correction)
        self.predictor = types.SimpleNamespace(
            network=types.SimpleNamespace(words_of=lambda text: text.lower().split())
        )

    def frequency(self, word):
        return self._frequencies.get(word, 0.0)

    def is_common(self, word):
        return word in self._common

    def scored_strip(self, text, after="", touches=None):
        self.touches.append(touches)
        return self._strip


def slot(word, typed="", probability=0.5):
    return Slot(word, probability, len(typed), f"{word} ")


def expected_beliefs(frequencies, words, start):
    """Returns P(language of the next word) by the sum over all paths of states."""
    habits, rarest = multilingual._HABITS[:, 0], 1e-7
    total = np.zeros(len(frequencies))
    for habit in range(len(habits)):
        for path in itertools.product(range(len(frequencies)), repeat=len(words) + 1):
            p = start[habit, path[0]]
            for place, word in enumerate(words):
                each = [max(rarest, one.get(word, 0.0)) for one in frequencies]
                evidence = max(each[path[place]] / max(each), 1e-2)
                stays = (1 - habits[habit]) * (path[place] == path[place + 1])
                p *= evidence * (stays + habits[habit] / len(frequencies))
            total[path[-1]] += p
    return total / total.sum()


ENGLISH, GERMAN = {"the": 0.05, "die": 1e-5, "in": 0.02}, {"die": 0.04, "in": 0.01, "und": 0.03}


@pytest.mark.parametrize("text", ["", "the ", "the die ", "in und the ", "und xyz in di"])
def test_beliefs_are_the_sum_over_all_paths(text):
    keyboard = MultilingualKeyboard([Fake(ENGLISH), Fake(GERMAN)])
    finished = text.split() if text.endswith(" ") or not text else text.split()[:-1]
    start = np.full((3, 2), 1 / 6)
    expected = expected_beliefs([ENGLISH, GERMAN], finished, start)
    np.testing.assert_allclose(keyboard.beliefs(text), expected, rtol=1e-9)


def test_a_language_that_is_written_long_is_believed_ever_more():
    keyboard = MultilingualKeyboard([Fake(ENGLISH), Fake(GERMAN)])
    first = []
    for _ in range(30):
        first.append(keyboard.beliefs("")[0])
        keyboard.sent("the in the the")
    assert first[0] == pytest.approx(0.5)
    assert all(a < b for a, b in itertools.pairwise(first[:10]))
    assert first[-1] > 0.98
    for _ in range(3):
        keyboard.sent("die und die und")
    assert keyboard.beliefs("")[1] > 0.7  # who changes is followed


def test_scores_are_sums_over_the_languages():
    english = Fake(ENGLISH, ranked=[(slot("in"), 0.4), (slot("the"), 0.3), (slot("die"), 0.1)])
    german = Fake(GERMAN, ranked=[(slot("die"), 0.5), (slot("und"), 0.45), (slot("in"), 0.2)])
    keyboard = MultilingualKeyboard([english, german])
    sums = {"in": 0.4 + 0.2, "the": 0.3, "die": 0.1 + 0.5, "und": 0.45}
    assert keyboard.keyboard_strip("").words == ("in", "die", "und")
    assert sorted(sums, key=lambda word: -sums[word])[:3] == ["in", "die", "und"]


def test_each_strip_keeps_its_order():
    # The correction in the third place is more probable than the words before it.
    english = Fake({}, ranked=[(slot("one"), 0.1), (slot("two"), 0.02), (slot("sure"), 0.9)])
    german = Fake({}, ranked=[(slot("drei"), 0.05)])
    words = MultilingualKeyboard([english, german]).keyboard_strip("").words
    assert words == ("one", "drei", "two")


@pytest.mark.parametrize(
    ("typed", "english", "german", "is_made"),
    [
        # The other language does not know the word.
        ("teh", {"correction": slot("the", "teh", 0.9)}, {}, True),
        # The word is common in it.
        ("teh", {"correction": slot("the", "teh", 0.9)}, {"common": ("teh",)}, False),
        # It is one of its rare words.
        ("teh", {"correction": slot("the", "teh", 0.9)}, {"frequencies": {"teh": 1e-3}}, False),
        ("teh", {"correction": slot("the", "teh", 0.9)}, {"frequencies": {"teh": 1e-7}}, True),
        # Both correct it, in the same way and differently.
        (
            "teh",
            {"correction": slot("the", "teh", 0.9)},
            {"correction": slot("the", "teh", 0.9), "common": ("teh",)},
            True,
        ),
        (
            "teh",
            {"correction": slot("the", "teh", 0.9)},
            {"correction": slot("die", "teh", 0.9)},
            False,
        ),
        # Only its case is changed.
        ("i", {"correction": slot("I", "i", 1.0), "frequencies": {"i": 0.03}}, {}, True),
        (
            "i",
            {"correction": slot("I", "i", 1.0), "frequencies": {"i": 0.001}},
            {"common": ("i",), "frequencies": {"i": 0.03}},
            False,
        ),
        # The word is right in the language that changes it, and the language is not sure.
        ("then", {"correction": slot("than", "then", 0.9), "common": ("then",)}, {}, False),
    ],
)
def test_a_correction_must_be_right_in_either_language(typed, english, german, is_made):
    keyboards = [
        Fake(**{"frequencies": ENGLISH, **english}),
        Fake(**{"frequencies": GERMAN, **german}),
    ]
    strip = MultilingualKeyboard(keyboards).keyboard_strip(typed)
    assert (strip.correction is not None) == is_made
    if is_made:  # what a space makes is on the strip
        assert strip.correction.word in strip.words


def test_a_sure_language_changes_its_own_words_by_their_context():
    change = slot("than", "then", 0.9)
    frequencies = {**ENGLISH, "than": 0.01, "then": 0.01}
    english = Fake(frequencies, common=("then",), correction=change)
    keyboard = MultilingualKeyboard([english, Fake(GERMAN)])
    assert keyboard.keyboard_strip("the in the the then").correction == change


def test_touches_are_on_the_keys_of_the_first_language():
    keyboards = [Fake(ENGLISH), Fake(GERMAN, code="de"), Fake(GERMAN, code="nl")]
    touches = [(2.0, 1.5)]
    MultilingualKeyboard(keyboards).keyboard_strip("s", touches=touches)
    same = LANGUAGES["nl"].keys == LANGUAGES["en"].keys
    assert [one.touches for one in keyboards] == [[touches], [None], [touches if same else None]]


@pytest.mark.parametrize(
    ("codes", "held"),
    [
        (("en", "de"), {"a": "ä", "o": "ö", "u": "ü", "s": "ß"}),
        (("de", "en"), {}),
        (("es", "pt"), {"a": "áãâà", "e": "éê", "i": "í", "o": "óõô", "u": "úü", "c": "ç"}),
        (("tr", "en"), {"a": "â", "i": "î", "u": "û"}),
    ],
)
def test_held_keys_offer_the_letters_of_all_languages(codes, held):
    keyboard = MultilingualKeyboard([Fake({}, code=code) for code in codes])
    assert keyboard.held == held


@pytest.mark.parametrize("count", [0, 1, 4])
def test_two_or_three_keyboards(count):
    with pytest.raises(ValueError, match=f"needs 2 to 3 models, got {count}"):
        MultilingualKeyboard([Fake(ENGLISH)] * count)


def model(code):
    return shipped_files.locate(shipped_files.model_folder(code) / "keyboard.tflite")


@pytest.fixture(scope="module")
def alone():
    return {code: AppKeyboard.open(model(code)) for code in ("en", "de")}


@pytest.fixture
def both(alone):
    return MultilingualKeyboard(list(alone.values()))


@pytest.mark.parametrize(
    "text",
    [
        "Kommst du heute Abend mit ins Kino? ",
        "Are you coming to the cinema with us? ",
        "I think we should go. Das ist mir zu spät. ",
        "Wir haben morgen ein Meeting, but I can't come. ",
    ],
)
def test_right_messages_stay(both, text):
    session = TypingSession()
    session.type(text, both)
    assert session.text == text


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("I definately want to come ", "I definitely want to come "),
        ("das habe ich vergesen ", "das habe ich vergessen "),
        ("teh ", "The "),
        ("and i think so ", "and I think so "),
    ],
)
def test_slips_of_both_languages_are_corrected(both, typed, meant):
    session = TypingSession()
    session.type(typed, both)
    assert session.text.casefold() == meant.casefold()


@pytest.mark.parametrize(("code", "before"), [("de", "I think that "), ("en", "Ich glaube, ")])
def test_no_common_word_is_turned_into_one_of_the_other_language(alone, both, code, before):
    keyboard = alone[code]
    vocabulary = keyboard.predictor.vocabulary.words
    words = [word for word in vocabulary[5:1500:5] if keyboard.is_common(word) and word.isalpha()]
    assert len(words) > 200
    (other,) = (one for one in alone.values() if one is not keyboard)
    changed, changed_alone = [], []
    for word in words:
        for strips, found in ((both, changed), (other, changed_alone)):
            correction = strips.keyboard_strip(before + word).correction
            if correction is None:
                continue
            made = correction.applied_to(before + word).removeprefix(before).strip()
            own = keyboard.keyboard_strip(before + word).correction
            is_own = own is not None and own.inserts == correction.inserts
            if casing.lower(made, code) != word and not is_own:
                found.append((word, made))
    assert changed == []
    assert changed_alone  # the other language alone does change some


def test_both_languages_learn_a_word(tmp_path):
    cache = WordCache()
    opened = [open_keyboard(model(code), cache=cache) for code in ("en", "de")]
    keyboard = MultilingualKeyboard([AppKeyboard(one) for one in opened])
    path = tmp_path / "words.cache"
    owner = UserHistory(opened, cache, path, keyboard)
    for _ in range(2):
        owner.learn("Heute kommt Zbigniew mit der Straßenbahn")
    assert path.is_file()
    assert keyboard.beliefs("")[1] > 0.6
    for text in ("I saw Zbig", "Ich sah Zbig"):
        assert "Zbigniew" in keyboard.keyboard_strip(text).words
    assert keyboard.offers("zbigniew")


def test_the_rules_of_the_likelier_language_cut_a_message(tmp_path):
    cache = WordCache()
    opened = [open_keyboard(model(code), cache=cache) for code in ("tr", "en")]
    keyboard = MultilingualKeyboard([AppKeyboard(one) for one in opened])
    owner = UserHistory(opened, cache, languages=keyboard)
    owner.learn("I think that it is the best Idea of them all")
    assert "idea" in cache.words
    assert "ıdea" not in cache.words
    owner.learn("bugün hava çok güzel ama Irmak gelmedi")
    assert "ırmak" in cache.words
    # Either of the words is forgotten as it was shown, whichever model is the first.
    for order in (opened, opened[::-1]):
        other = UserHistory(order, cache, languages=keyboard)
        other.learn("bugün hava çok güzel ama Irmak gelmedi")
        other.learn("I think that it is the best Idea of them all")
        assert other.forget("Irmak Idea") == (["ırmak", "idea"], []) or set(
            other.cache.uses
        ).isdisjoint({"ırmak", "irmak", "idea", "ıdea"})
        assert {"ırmak", "idea"}.isdisjoint(cache.uses)
    assert owner.forget("Unbekannt") == ([], ["unbekannt"])


def test_a_message_begins_in_the_language_of_the_last_ones():
    keyboard = MultilingualKeyboard([Fake(ENGLISH), Fake(GERMAN)])
    assert keyboard.predictor_of("Xyz") is keyboard.predictors[0]
    for _ in range(3):
        keyboard.sent("die und die und")
    assert keyboard.predictor_of("Xyz") is keyboard.predictors[1]


def test_a_strip_and_a_message_at_the_same_time(tmp_path):
    """A strip takes the locks of the beliefs and of the words, and so does learning."""
    cache = WordCache()
    opened = [open_keyboard(model(code), cache=cache) for code in ("en", "de")]
    keyboard = MultilingualKeyboard([AppKeyboard(one) for one in opened])
    owner = UserHistory(opened, cache, languages=keyboard)

    def type_words():
        for word in ["the", "und", "ich", "have"] * 10:
            keyboard.keyboard_strip(f"{word} {word[:1]}")

    threads = [threading.Thread(target=type_words, daemon=True)]
    threads += [
        threading.Thread(target=owner.learn, args=("und the",), daemon=True) for _ in "abcd"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)


def test_touches_have_the_length_of_the_word():
    keyboard = MultilingualKeyboard([Fake(ENGLISH), Fake(GERMAN, code="de")])
    with pytest.raises(ValueError, match="each of the 2 characters"):
        keyboard.keyboard_strip("in th", touches=[(1.0, 1.0)])


def test_one_emoji_at_most():
    english = Fake({}, ranked=[(slot("🥧"), 0.4), (slot("the"), 0.3)])
    spanish = Fake({}, ranked=[(slot("🦶"), 0.35), (slot("el"), 0.2)])
    assert MultilingualKeyboard([english, spanish]).keyboard_strip("").words == ("🥧", "the", "el")


@pytest.mark.parametrize(("text", "word"), [("die ", "die"), ("die und und und und ", "die")])
def test_the_better_of_two_corrections_is_made_if_it_is_much_better(text, word):
    english = Fake(ENGLISH, correction=slot("the", "teh", 0.9))
    german = Fake(GERMAN, correction=slot("die", "teh", 0.9))
    strip = MultilingualKeyboard([english, german]).keyboard_strip(f"{text}teh")
    assert strip.correction is not None
    assert strip.correction.word == word


def test_a_language_that_is_left_out_keeps_its_common_words():
    english = Fake(ENGLISH, correction=slot("the", "teh", 0.9))
    german = Fake(GERMAN, common=("teh",), ranked=[(slot("und"), 0.9)])
    keyboard = MultilingualKeyboard([english, german])
    for _ in range(40):
        keyboard.sent("the in the the in the")
    assert keyboard.beliefs("")[1] < 0.01
    strip = keyboard.keyboard_strip("the the teh")
    assert strip.correction is None
    assert strip.words == ()


def test_probabilities_stay_finite_after_a_long_text(both):
    text = "und the " * 3_000
    beliefs = both.beliefs(text)
    assert all(map(math.isfinite, beliefs))
    assert sum(beliefs) == pytest.approx(1.0)
