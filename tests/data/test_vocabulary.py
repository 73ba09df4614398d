"""Rows, ids and the file of a vocabulary."""

import collections

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard.data import vocabulary
from tff_keyboard.data.vocabulary import NormalisationRules, Vocabulary
from tff_keyboard.storage.errors import DataError

RULES = NormalisationRules()
WORDS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0\t\n\v\f\r \x85"),
    min_size=1,
    max_size=8,
).filter(lambda word: not vocabulary.is_mask(word))
RULE_SETS = st.builds(
    NormalisationRules,
    mode=st.sampled_from(vocabulary.MODES),
    lowercase=st.booleans(),
    language=st.sampled_from(vocabulary.LANGUAGES),
)


def test_special_ids():
    assert (vocabulary.PAD, vocabulary.BOS, vocabulary.EOS, vocabulary.OOV) == (0, 1, 2, 3)
    assert vocabulary.SPECIAL_IDS == (0, 1, 2, 3)


@hypothesis.given(
    counts=st.dictionaries(WORDS, st.integers(1, 9), min_size=1), size=st.integers(5, 30)
)
@examples(100)
def test_chooses_most_frequent_words_with_ties_by_word(counts, size):
    made = Vocabulary.from_counts(counts, size, RULES)
    ordered = sorted(counts, key=lambda word: (-counts[word], word))
    assert made.words[4:] == tuple(ordered[: size - 4])
    for row, word in enumerate(made.words[4:], start=4):
        assert made.id_of(word) == row
    for word in ordered[size - 4 :]:
        assert made.id_of(word) == vocabulary.OOV


def test_typed_text_never_reaches_a_special_row():
    counts = collections.Counter({"<pad>": 50, "<oov>": 50, "<url>": 50, "<#>": 50, "hi": 1})
    made = Vocabulary.from_counts(counts, 100, RULES)
    assert made.words == (*vocabulary.SPECIAL_WORDS, "hi")
    assert made.encode(["<pad>", "<bos>", "<eos>", "<oov>", "<url>", "hi"]) == [3, 3, 3, 3, 3, 4]


@hypothesis.given(words=st.sets(WORDS, min_size=1, max_size=30), rules=RULE_SETS)
@examples(60)
def test_file_round_trip(tmp_path_factory, words, rules):
    path = tmp_path_factory.mktemp("vocabulary") / "vocabulary.txt"
    made = Vocabulary((*vocabulary.SPECIAL_WORDS, *sorted(words)), rules)
    made.save(path)
    loaded = Vocabulary.load(path)
    assert loaded == made
    assert loaded.fingerprint == made.fingerprint
    assert [entry.name for entry in path.parent.iterdir()] == ["vocabulary.txt"]


def test_fingerprint_names_rows_and_rules():
    prints = {
        Vocabulary((*vocabulary.SPECIAL_WORDS, *words), rules).fingerprint
        for words in (["a", "b"], ["b", "a"], ["ab"], ["a"])
        for rules in (RULES, NormalisationRules(lowercase=False))
    }
    assert len(prints) == 8


def test_rules_line_omits_english():
    words = (*vocabulary.SPECIAL_WORDS, "ev")
    assert (
        b'# rules: {"lowercase": true, "mode": "words", "version": 1}\n'
        in Vocabulary(words, RULES).to_bytes()
    )
    turkish = Vocabulary(words, NormalisationRules(language="tr"))
    rules = b'# rules: {"language": "tr", "lowercase": true, "mode": "words", "version": 1}\n'
    assert rules in turkish.to_bytes()
    assert turkish.fingerprint != Vocabulary(words, RULES).fingerprint


def save(path):
    Vocabulary.from_counts({"hi": 3, "there": 2, "you": 1}, 10, RULES).save(path)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-4],
        lambda text: "\n".join(text.split("\n")[:-2]) + "\n",
        lambda text: text.replace("there", "their"),
        lambda text: text.replace('"words"', '"whitespace"'),
        lambda text: text.replace("<oov>", "<unk>"),
        lambda text: text.replace('"version": 1', '"version": 2'),
        lambda text: "",
        lambda text: "hi\nthere\n",
    ],
    ids=["cut", "line-lost", "word", "rules", "special", "version", "empty", "other"],
)
def test_damaged_file_is_refused(tmp_path, damage):
    path = tmp_path / "vocabulary.txt"
    save(path)
    path.write_text(damage(path.read_text()))
    with pytest.raises(DataError, match=r"vocabulary\.txt: not a complete vocabulary file"):
        Vocabulary.load(path)


def test_missing_or_binary_file(tmp_path):
    with pytest.raises(DataError, match="there is no vocabulary file"):
        Vocabulary.load(tmp_path / "vocabulary.txt")
    (tmp_path / "model").write_bytes(b"\xff\xfe\0")
    with pytest.raises(DataError, match="cannot be read as a vocabulary file"):
        Vocabulary.load(tmp_path / "model")


@pytest.mark.parametrize(
    "words, says",
    [
        (["hi"], "first rows"),
        ([*vocabulary.SPECIAL_WORDS, "hi", "hi"], "occurs 2 times"),
        ([*vocabulary.SPECIAL_WORDS, "a b"], "contains a blank"),
        ([*vocabulary.SPECIAL_WORDS, ""], "is empty"),
        ([*vocabulary.SPECIAL_WORDS, "<url>"], "mask"),
    ],
)
def test_rejects_wrong_rows(words, says):
    with pytest.raises(ValueError, match=says):
        Vocabulary(words, RULES)


def test_rejects_sizes_out_of_range():
    with pytest.raises(ValueError, match="`size` must be > 4"):
        Vocabulary.from_counts({"hi": 1}, 4, RULES)
    with pytest.raises(ValueError, match="no words"):
        Vocabulary.from_counts({"<url>": 1}, 10, RULES)
    with pytest.raises(ValueError, match="`mode` must be one of"):
        NormalisationRules(mode="letters")
    with pytest.raises(
        ValueError, match="`language` must be one of en, de, tr, es, nl, pt, got 'xx'"
    ):
        NormalisationRules(language="xx")
