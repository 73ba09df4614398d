import hypothesis
import pytest
from hypothesis import strategies as st

from tflite_export.keyboard.sentences import sentence_of


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", ""),
        ("see you", "see you"),
        ("Ok. see", "see"),
        ("Ok.see", "Ok.see"),
        ("Really?! yes", "yes"),
        ('He said "go." then', "then"),
        ("(Yes!) then", "then"),
        ("one\ntwo", "two"),
        ("a. b! c? d", "d"),
        ("ok... see", "ok... see"),
        ("ok… see", "ok… see"),
        ("ok.. see", "ok.. see"),
        ("at 7.30 in", "at 7.30 in"),
        ("Ok. ", ""),
        ("Ok.", "Ok."),  # it may become a number or a name yet
    ],
)
def test_where_a_sentence_begins(text, sentence):
    assert sentence_of(text) == sentence


@hypothesis.given(st.text(max_size=60))
def test_a_sentence_is_the_end_of_the_text(text):
    sentence = sentence_of(text)
    assert text.endswith(sentence)
    assert not sentence[:1].isspace()


def test_the_time_does_not_grow_with_the_text():
    assert sentence_of("a. b " * 1_000_000).startswith("b")
