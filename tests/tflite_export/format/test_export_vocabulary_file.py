import random
import zlib

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.keyboard import export_fakes
from tff_keyboard.data.vocabulary import (
    LANGUAGES,
    NUM_SPECIAL,
    SPECIAL_WORDS,
    NormalisationRules,
    Vocabulary,
    is_mask,
)
from tff_keyboard.storage.errors import ExportError
from tflite_export.format import vocabulary_file

words = st.text(
    st.characters(exclude_categories=["Cs", "Zs", "Zl", "Zp", "Cc"]), min_size=1, max_size=8
).filter(lambda word: not is_mask(word))


def vocabulary_of(found, **rules):
    return Vocabulary((*SPECIAL_WORDS, *found), NormalisationRules(**rules))


@hypothesis.given(
    st.lists(words, min_size=1, max_size=30, unique=True),
    st.booleans(),
    st.sampled_from(["words", "whitespace"]),
    st.sampled_from(LANGUAGES),
)
@examples(100)
def test_reads_what_it_wrote(found, lowercase, mode, language):
    vocabulary = vocabulary_file.sorted_vocabulary(
        vocabulary_of(found, lowercase=lowercase, mode=mode, language=language)
    )
    assert vocabulary_file.decode(vocabulary_file.encode(vocabulary)) == vocabulary


def test_rows_say_where_each_sorted_word_came_from():
    vocabulary = export_fakes.vocabulary()
    ordered = vocabulary_file.sorted_vocabulary(vocabulary)
    rows = vocabulary_file.sorted_rows(vocabulary)
    assert sorted(rows) == list(range(len(vocabulary)))
    assert [vocabulary.words[row] for row in rows] == list(ordered.words)
    assert ordered.words[:NUM_SPECIAL] == SPECIAL_WORDS
    assert list(ordered.words[NUM_SPECIAL:]) == sorted(export_fakes.WORDS)


def test_words_that_share_more_than_a_byte_can_count():
    vocabulary = vocabulary_of(["a" * 300, "a" * 301, "a" * 600])
    assert vocabulary_file.decode(vocabulary_file.encode(vocabulary)) == vocabulary


def test_unsorted_words_are_rejected():
    with pytest.raises(ValueError, match="sorted"):
        vocabulary_file.encode(vocabulary_of(["b", "a"]))


def test_is_smaller_than_the_words_compressed():
    generator = random.Random(0)
    syllables = ["ka", "lo", "mi", "ter", "an", "sho", "ing", "re", "un", "pa", "s", "ed"]
    found = {"".join(generator.choices(syllables, k=generator.randint(1, 5))) for _ in range(9000)}
    packed = vocabulary_file.encode(vocabulary_of(sorted(found)))
    assert len(packed) < 0.9 * len(zlib.compress("\n".join(sorted(found)).encode(), 9))


def test_a_changed_bit_is_noticed_wherever_it_is():
    packed = vocabulary_file.encode(vocabulary_of(["an", "and", "ant"]))
    for place in range(len(packed)):
        for bit in range(8):
            changed = bytearray(packed)
            changed[place] ^= 1 << bit
            with pytest.raises(ExportError, match="not a complete vocabulary file"):
                vocabulary_file.decode(bytes(changed))


@pytest.mark.parametrize("kept", [0, 5, 60, -1])
def test_a_cut_file_is_rejected(kept):
    packed = vocabulary_file.encode(vocabulary_of(["an", "and"]))
    with pytest.raises(ExportError, match=r"words\.bin: not a complete vocabulary file"):
        vocabulary_file.decode(packed[:kept], "words.bin")


def test_too_large_unpacked_data_is_rejected(monkeypatch):
    monkeypatch.setattr(vocabulary_file, "_MAX_BYTES", 10)
    packed = vocabulary_file.encode(vocabulary_of(["an", "and", "answer", "other"]))
    with pytest.raises(ExportError, match="too long"):
        vocabulary_file.decode(packed)
