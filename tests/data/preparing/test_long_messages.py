"""Splitting loses nothing and never exceeds the limit."""

import hypothesis
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard.data.preparing.user_plan import SENTENCE_ENDS, split_message


@hypothesis.given(
    tokens=st.lists(st.sampled_from(["a", "b", ".", "!", "c"]), min_size=1, max_size=60),
    max_words=st.integers(1, 12),
)
@examples(100)
def test_pieces(tokens, max_words):
    pieces = split_message(tokens, max_words)
    assert [token for piece in pieces for token in piece] == tokens
    for index, piece in enumerate(pieces):
        sentences = [token for token in piece if token in SENTENCE_ENDS]
        if index < len(pieces) - 1:
            assert piece[-1] in SENTENCE_ENDS  # a sentence end in the text
        if len(piece) > max_words:  # a single sentence longer than the limit
            assert len(sentences) - (piece[-1] in SENTENCE_ENDS) == 0
    if len(tokens) <= max_words:
        assert pieces == [tokens]
