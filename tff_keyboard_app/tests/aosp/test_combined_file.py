"""Word lists as text: writing, reading, AOSP's own sample, and invalid lines."""

import math

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard.storage.errors import DataError
from tff_keyboard_app.aosp import combined_file
from tff_keyboard_app.aosp.combined_file import WordList

HEADER = {"dictionary": "main:en", "locale": "en", "description": "a list", "version": "1"}
WORDS = st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=6).filter(
    combined_file.may_be_listed
)
FREQUENCIES = st.integers(0, 255)


@st.composite
def word_lists(draw):
    words = draw(st.dictionaries(WORDS, FREQUENCIES, min_size=1, max_size=6))
    chosen = st.sampled_from(sorted(words))
    following = st.dictionaries(chosen, FREQUENCIES, min_size=1, max_size=3)
    return WordList(HEADER, words, draw(st.dictionaries(chosen, following, max_size=3)))


@hypothesis.given(word_lists(), st.lists(st.text("ab= ,", max_size=5), max_size=2))
@examples(100)
def test_a_list_is_read_back_as_it_was(words, remarks):
    data = words.to_bytes(remarks)
    assert combined_file.parse(data.decode()) == words
    assert list(combined_file.parse(data.decode()).words) == list(words.words)  # and in its order


def test_makedict_takes_words_of_less_than_48_characters():
    assert combined_file.may_be_listed("é" * 47)
    assert not combined_file.may_be_listed("é" * 48)


def test_the_form_of_aosps_sample():
    words = combined_file.parse(
        "# a remark\n"
        "dictionary=main:en,locale=en,description=Sample wordlist,date=1351495318,version=1\n"
        " word=sample,f=200\n"
        "  bigram=wordlist,f=243\n"
        " word=wordlist,f=180\n"
        " word=witelisted,f=10,not_a_word=true\r\n"
        "  shortcut=whitelisted,f=whitelist\n"
        " word=profanity,f=0\n"
    )
    assert words.header["description"] == "Sample wordlist"
    assert words.words == {"sample": 200, "wordlist": 180, "profanity": 0}
    assert words.bigrams == {"sample": {"wordlist": 243}}
    assert words.num_bigrams == 1


def test_each_step_down_divides_by_its_base():
    steps = np.arange(255)
    assert combined_file.frequency_of(1.15**-steps).tolist() == (255 - steps).tolist()
    half = math.sqrt(1.15)
    assert combined_file.frequency_of(np.array([1 / (half * 1.01), 1.01 / half])).tolist() == [
        254,
        255,
    ]
    assert combined_file.frequency_of(np.array([2.0, 1e-300, 0, -1])).tolist() == [255, 1, 1, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: not a word list"),
        ("hello\n", "line 1: must be dictionary="),
        ("dictionary=main:en,locale\n word=a,f=1\n", "line 1: must be dictionary="),
        ("dictionary=main:en\n  bigram=a,f=1\n", "line 2: there is a bigram before"),
        ("dictionary=main:en\n word=a\n", "line 2: `f` must be"),
        ("dictionary=main:en\n word=a,f=256\n", "line 2: `f` must be"),
        ("dictionary=main:en\n word=a,f=-1\n", "line 2: `f` must be"),
        ("dictionary=main:en\n word=a,f=1\n words=b,f=1\n", "line 3: must be ` word="),
        ("dictionary=main:en\n word=a,f=1,x\n", "line 2: must be ` word="),
    ],
)
def test_invalid_line_is_named(tmp_path, text, message):
    path = tmp_path / "x.combined"
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        combined_file.read(path)
    assert str(caught.value).startswith(f"{path}, {message}")
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(DataError, match=r"x\.combined: cannot be read"):
        combined_file.read(tmp_path / "x.combined")
    (tmp_path / "x.combined").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="not UTF-8"):
        combined_file.read(tmp_path / "x.combined")


def test_entries_of_a_personal_dictionary_are_listed():
    header = {"dictionary": "main:en", "locale": "en"}
    words = WordList(header, {"the": 226, "brb": 90}, {"the": {"brb": 100}})
    entries = [
        ("", "Kagi"), ("", "the"), ("", "two words"), ("omw", "on my way"),
        ("brb", "be right back"), ("eq", "a=b"), ("a b", "text"),
    ]  # fmt: skip
    listed = combined_file.with_entries(words, entries)
    assert listed.words == {"the": 226, "brb": 90, "Kagi": 160}
    assert listed.shortcuts == {"omw": "on my way", "brb": "be right back"}
    assert listed.to_bytes().decode().splitlines()[1:] == [
        " word=the,f=226",
        "  bigram=brb,f=100",
        " word=brb,f=90",
        "  shortcut=be right back,f=14",
        " word=Kagi,f=160",
        " word=omw,f=1,not_a_word=true",
        "  shortcut=on my way,f=14",
    ]
    again = combined_file.parse(listed.to_bytes().decode())
    assert again.words == listed.words
