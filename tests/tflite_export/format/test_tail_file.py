"""The lexicon's file: round trip, and rejected content."""

import pathlib

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from tests.support.damage import damaged
from tests.support.examples import examples
from tests.support.keyboard.lexicons import ACCEPTED, REFUSED, forged
from tff_keyboard.data.text.python_tokenizer import PythonTokenizer
from tff_keyboard.data.text.word_list import read_word_list
from tff_keyboard.data.vocabulary import SPECIAL_WORDS, NormalisationRules, Vocabulary
from tff_keyboard.predictors import tail_lexicon
from tff_keyboard.predictors.tail_lexicon import TailLexicon, may_be_listed, of_steps
from tff_keyboard.storage.errors import ExportError
from tflite_export.format import tail_file, vocabulary_file

WORDS = st.text(
    st.characters(exclude_categories=["Cs", "Zs", "Zl", "Zp", "Cc", "Cf"]), min_size=1, max_size=8
).filter(may_be_listed)
VOCABULARY = Vocabulary((*SPECIAL_WORDS, "\U0010ffff\U0010ffff"), NormalisationRules())
LEXICONS = st.dictionaries(WORDS, st.integers(60, 255), min_size=1, max_size=30).map(
    lambda steps: of_steps(sorted(steps), np.array([steps[w] for w in sorted(steps)], np.uint8))
)
MODELS = pathlib.Path(__file__).parents[3] / "models"
EXAMPLE = tail_file.encode(TailLexicon(["homely", "homing", "zzz"], np.array([0.3, 0.2, 0.1])))


@hypothesis.given(LEXICONS)
@examples(100)
def test_reads_what_it_wrote(lexicon):
    found = tail_file.decode(tail_file.encode(lexicon), VOCABULARY)
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
    with pytest.raises(ExportError, match="not a complete lexicon") as caught:
        tail_file.decode(data, VOCABULARY)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("count", [0, 2, 4, 10**9, "3", None])
def test_a_forged_number_of_words(count):
    packed = vocabulary_file.pack(["a", "b", "c"], bytes([80, 80, 80]))
    data = vocabulary_file.with_checksum(tail_file.FORMAT, {"words": count}, packed)
    with pytest.raises(ExportError, match="not a complete lexicon"):
        tail_file.decode(data, VOCABULARY)


@pytest.mark.parametrize(
    "word", [*REFUSED.values(), b"\xf4\x8f\xbf\xbf" * 2], ids=[*REFUSED, "table"]
)
def test_words_that_no_strip_may_have(word):
    """The checksum is right, but a word is invisible, not a word, or in the table."""
    with pytest.raises(
        ExportError, match=r"k\.tail: not a complete lexicon \(.+\)\. Export"
    ) as caught:
        tail_file.decode(forged(word), VOCABULARY, "k.tail")
    message = str(caught.value)
    assert message.isprintable()
    assert "hell" not in message


@pytest.mark.parametrize("word", ACCEPTED)
def test_words_that_look_like_them(word):
    assert tail_file.decode(forged(word.encode()), VOCABULARY).words == (word,)


HOSTILE_TEXT = [word.decode("utf-8", "surrogateescape") for word in REFUSED.values()]
RULES = [
    NormalisationRules(),
    NormalisationRules(language="de"),
    NormalisationRules(language="tr", lowercase=False),
    NormalisationRules(mode="whitespace", lowercase=False),
]


@pytest.mark.parametrize("rules", RULES, ids=lambda rules: f"{rules.language}-{rules.mode}")
@hypothesis.given(st.lists(st.text(), max_size=9))
@hypothesis.example(HOSTILE_TEXT)
@examples(50)
def test_what_an_export_lists_can_be_read(rules, tmp_path_factory, texts):
    """Words of users' messages and of a public list, as the tokeniser gives them."""
    vocabulary = Vocabulary((*SPECIAL_WORDS, "hello"), rules)
    lines = [*texts, *HOSTILE_TEXT, "hello", "quay"]
    path = tmp_path_factory.mktemp("list") / "list.tsv"
    rows = (f"{line}\t1\n" for line in lines if not set(line) & set("\0\t\r\n"))
    path.write_bytes("".join(rows).encode(errors="replace"))
    frequencies = read_word_list(path, rules)
    messages = PythonTokenizer(rules).tokenize(lines)
    for lexicon in (
        tail_lexicon.listed(frequencies, vocabulary, size=99),
        tail_lexicon.counted([messages], vocabulary, size=99, min_clients=1),
    ):
        assert "quay" in lexicon.words
        assert tail_file.decode(tail_file.encode(lexicon), vocabulary).words == lexicon.words


@pytest.mark.parametrize("name", ["base", "messages"])
def test_the_lexicons_of_this_checkout(name):
    path = MODELS / name / "keyboard.tail"
    vocabulary = vocabulary_file.decode(path.with_suffix(".vocabulary").read_bytes())
    assert len(tail_file.decode(path.read_bytes(), vocabulary)) >= 20_000


def test_capitals_come_back_and_those_of_another_lexicon_do_not():
    words = ["berlin", "bread", "london", "water"]
    lexicon = TailLexicon(words, np.full(4, 0.1))
    packed = tail_file.packed_capitals(lexicon, {"berlin", "london", "paris"})
    assert tail_file.unpacked_capitals(lexicon, packed) == ["berlin", "london"]
    assert tail_file.unpacked_capitals(lexicon, tail_file.packed_capitals(lexicon, ())) == []
    longer = TailLexicon([*words, "xa", "xb", "xc", "xd", "zz"], np.full(9, 0.1))
    for wrong in (packed[:-6], "é", "AAAA", packed[4:]):
        with pytest.raises(ExportError, match="capitals"):
            tail_file.unpacked_capitals(lexicon, wrong)
    with pytest.raises(ExportError, match="another lexicon"):
        tail_file.unpacked_capitals(longer, packed)
