"""The lexicon's file: what is written is read, and nothing else."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from tests.support.damage import damaged
from tests.support.examples import examples
from tff_keyboard.predictors.tail_lexicon import TailLexicon, of_steps
from tff_keyboard.storage.errors import ExportError
from tflite_export.format import tail_file, vocabulary_file

WORDS = st.text(
    st.characters(exclude_categories=["Cs", "Zs", "Zl", "Zp", "Cc"]), min_size=1, max_size=8
)
LEXICONS = st.dictionaries(WORDS, st.integers(60, 255), min_size=1, max_size=30).map(
    lambda steps: of_steps(sorted(steps), np.array([steps[w] for w in sorted(steps)], np.uint8))
)
EXAMPLE = tail_file.encode(TailLexicon(["homely", "homing", "zzz"], np.array([0.3, 0.2, 0.1])))


@hypothesis.given(LEXICONS)
@examples(100)
def test_reads_what_it_wrote(lexicon):
    found = tail_file.decode(tail_file.encode(lexicon))
    assert found.words == lexicon.words
    np.testing.assert_array_equal(found.shares, lexicon.shares)


def test_a_byte_a_word():
    words = [f"word{i:05}" for i in range(20_000)]
    data = tail_file.encode(TailLexicon(words, np.full(20_000, 1e-5)))
    assert len(data) < 70_000


@hypothesis.given(damaged(EXAMPLE))
@examples(150)
def test_damage_is_one_line(data):
    if data == EXAMPLE:
        return
    with pytest.raises(ExportError, match="not a whole lexicon") as caught:
        tail_file.decode(data)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("count", [0, 2, 4, 10**9, "3", None])
def test_a_forged_number_of_words(count):
    packed = vocabulary_file.pack(["a", "b", "c"], bytes([80, 80, 80]))
    forged = vocabulary_file.with_checksum(tail_file.FORMAT, {"words": count}, packed)
    with pytest.raises(ExportError, match="not a whole lexicon"):
        tail_file.decode(forged)
