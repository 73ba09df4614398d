"""`KeyboardPredictor` on a real file: text, streaming, prefixes, and hostile input."""

import dataclasses
import json
import pathlib
import shutil
import subprocess
import sys

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.keyboard import export_fakes
from tests.support.keyboard.export_fakes import export
from tests.support.own_seconds import own_seconds
from tff_keyboard.data.text.python_tokenizer import PythonTokenizer
from tff_keyboard.data.vocabulary import BOS, NUM_SPECIAL, OOV, PAD, SPECIAL_WORDS, Vocabulary
from tff_keyboard.predictors.predictor import Predictor
from tff_keyboard.storage.errors import ExportError
from tflite_export.export.export_options import ExportOptions
from tflite_export.runtime import keyboard_predictor
from tflite_export.runtime.keyboard_predictor import KeyboardPredictor

VOCABULARY = export_fakes.vocabulary()
SENTENCE = export_fakes.SENTENCES[0]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runtime")
    run = export_fakes.save_run(folder / "run")
    return export(run, folder / "keyboard.tflite", ExportOptions()).paths.model


@pytest.fixture(scope="module")
def predictor(path):
    return KeyboardPredictor(path)


@pytest.fixture(scope="module")
def fresh(path):
    """Returns a second instance, reset before every use, to compare with."""
    other = KeyboardPredictor(path)

    def strip(text):
        other.reset()
        return other.strip_for(text).suggestions

    return strip


def assert_same(got, expected):
    assert [word for word, _ in got] == [word for word, _ in expected]
    np.testing.assert_allclose([p for _, p in got], [p for _, p in expected], rtol=1e-5)


@pytest.mark.parametrize(
    ("text", "context", "prefix"),
    [
        ("", [], ""),
        ("Are you", ["are"], "you"),
        ("Are you ", ["are", "you"], ""),
        ("are you, ", ["are", "you"], ""),
        ("are you...", ["are", "you"], ""),
        ("don’t", [], "don't"),
        ("don'", [], "don'"),
        ("at 7:30 com", ["at", "7:30"], "com"),
        ("ok 😀", ["ok", "😀"], ""),
        ("(Home", [], "home"),
        ("STRASSE Straß", ["strasse"], "straß"),
        ("good-", [], "good-"),
        ("  \n\t", [], ""),
    ],
)
def test_text_is_cut_into_finished_words_and_a_prefix(predictor, text, context, prefix):
    assert predictor.context_and_prefix(text) == (context, prefix)


@hypothesis.given(st.text(max_size=60))
@examples(200)
def test_any_unicode_gives_the_words_of_training(predictor, text):
    """With a space at the end, no word is unfinished: the words are exactly the tokeniser's."""
    context, prefix = predictor.context_and_prefix(text + " ")
    assert prefix == ""
    assert context == PythonTokenizer(VOCABULARY.rules).tokenize_one(text)


@hypothesis.given(st.text(max_size=40), st.integers(1, 8))
@examples(200)
def test_any_unicode_gives_valid_suggestions(predictor, text, k):
    strip = predictor.strip_for(text, k)
    words = [word for word, _ in strip.suggestions]
    assert len(words) <= k
    assert len(set(words)) == len(words)
    assert all(word in export_fakes.WORDS and word.startswith(strip.prefix) for word in words)
    probabilities = [probability for _, probability in strip.suggestions]
    assert probabilities == sorted(probabilities, reverse=True)
    assert all(0.0 < probability < 1.0 for probability in probabilities)


@pytest.mark.parametrize(
    "text",
    [
        "x" * 1_000_000,
        "a " * 500_000,
        "\n" * 1_000_000,
        "😀" * 250_000,
        "a\u0301" * 500_000,
        "'" * 10**6,
    ],
    ids=["one word", "words", "lines", "emoji", "accents", "apostrophes"],
)
def test_a_megabyte_pasted_takes_bounded_time(predictor, text):
    with own_seconds() as spent:
        predictor.strip_for(text)
        predictor.strip_for(text + "h")
        assert spent() < 5.0  # about 0.1 s here; minutes if it were not bounded


def test_streaming_matches_reading_from_the_start(predictor, fresh):
    text = ". ".join(export_fakes.SENTENCES)
    for end in range(len(text) + 1):
        assert_same(predictor.strip_for(text[:end]).suggestions, fresh(text[:end]))


@hypothesis.given(st.lists(st.integers(-6, 12), max_size=25), st.randoms(use_true_random=False))
@examples(30)
def test_typing_deleting_and_jumping_match_reading_from_the_start(predictor, fresh, moves, random):
    text = ""
    for move in moves:
        text = (
            text[:move] if move < 0 else text + random.choice(SENTENCE.split()) + " " * (move % 2)
        )
        assert_same(predictor.strip_for(text).suggestions, fresh(text))


def test_a_long_text_reads_the_same_wherever_typing_began(predictor, fresh):
    text = " ".join(export_fakes.SENTENCES * 20)  # beyond the window, across its edges
    for end in range(len(text) - 600, len(text), 7):
        assert_same(predictor.strip_for(text[:end]).suggestions, fresh(text[:end]))


def test_no_more_is_read_than_training_sequences_had(path):
    keyboard = KeyboardPredictor(path)
    model = dataclasses.replace(keyboard.manifest.model, training_length=8)
    keyboard.manifest = dataclasses.replace(keyboard.manifest, model=model)
    context = [word for sentence in export_fakes.SENTENCES for word in sentence.split()]
    assert len(context) > 24
    for count in (7, 8, 20, len(context)):
        ids = np.array(keyboard.encode(context[:count]))
        first = 0 if len(ids) <= 8 else -(-(len(ids) - 8) // 4) * 4  # a multiple of half of it
        expected = np.exp(keyboard.log_probabilities(ids[np.newaxis, first:])[-1])
        np.testing.assert_allclose(keyboard.next_word(context[:count]), expected, rtol=1e-4)


def test_going_on_reads_only_the_new_word(path, monkeypatch):
    counted = KeyboardPredictor(path)
    steps = []
    step = counted._step
    monkeypatch.setattr(counted, "_step", lambda **inputs: steps.append(1) or step(**inputs))
    for end in range(len(SENTENCE) + 1):
        counted.strip_for(SENTENCE[:end])
    assert len(steps) == len(SENTENCE.split())  # BOS and each finished word; the last is unfinished
    steps.clear()
    for end in reversed(range(len(SENTENCE) + 1)):
        counted.strip_for(SENTENCE[:end])
    assert not steps  # deleting reads nothing


def test_states_behind_are_bounded(path):
    predictor = KeyboardPredictor(path)
    for count in range(1, 150):
        predictor.suggest(["home"] * count)
    assert (
        sum(position is not None for position in predictor._positions)
        <= keyboard_predictor._STATES_KEPT
    )


def test_suggestions_are_those_of_the_scores(predictor):
    context = ["are", "you", "unheard"]
    ids = np.array([[BOS, *predictor.vocabulary.encode(context)]], np.int32)
    assert OOV in ids
    scores = predictor.log_probabilities(ids)[-1].astype(np.float64)
    np.testing.assert_allclose(np.exp(scores).sum(), 1.0, rtol=1e-5)
    for prefix, k in (("", 3), ("", 9), ("t", 3), ("la", 5), ("zzz", 3)):
        rows = [
            row
            for row, word in enumerate(predictor.vocabulary.words)
            if row >= NUM_SPECIAL and word.startswith(prefix)
        ]
        best = sorted(rows, key=lambda row: (-scores[row], row))[:k]
        expected = [(predictor.vocabulary.words[row], float(np.exp(scores[row]))) for row in best]
        assert_same(predictor.suggest(context, prefix, k), expected)


def test_scores_come_in_the_order_of_the_run_if_asked(path, predictor):
    as_run = KeyboardPredictor(path, VOCABULARY)
    messages = [["are", "you", "coming"], ["see", "you", "later", "ok"]]

    def scored(model):
        ids = np.zeros([2, 5], np.int32)
        for row, words in enumerate(messages):
            ids[row, : len(words) + 1] = [BOS, *model.vocabulary.encode(words)]
        return model.log_probabilities(ids)

    assert as_run.vocabulary is VOCABULARY
    assert VOCABULARY.words != predictor.vocabulary.words
    by_word = {word: row for row, word in enumerate(predictor.vocabulary.words)}
    order = [by_word[word] for word in VOCABULARY.words]
    np.testing.assert_array_equal(scored(as_run), scored(predictor)[:, order])


def test_scores_leave_out_padding(predictor):
    ids = np.array([[BOS, 5, 6], [BOS, PAD, PAD]], np.int32)
    scores = predictor.log_probabilities(ids)
    assert scores.shape == (4, len(VOCABULARY))
    np.testing.assert_array_equal(scores[0], scores[3])


def test_is_a_predictor(predictor):
    assert isinstance(predictor, Predictor)


def test_a_state_that_became_nan_is_read_again(path, fresh):
    predictor = KeyboardPredictor(path)
    predictor.strip_for("are you ")
    predictor._positions[-1].c[:] = np.nan
    assert_same(predictor.strip_for("are you ").suggestions, fresh("are you "))
    predictor._positions[-1].h[:] = np.inf
    assert_same(predictor.strip_for("are you coming ").suggestions, fresh("are you coming "))


def test_a_model_that_computes_nan_says_so(path, monkeypatch):
    predictor = KeyboardPredictor(path)
    step = predictor._step

    def broken(**inputs):
        return {
            name: np.full_like(value, np.nan) if name == "new_c" else value
            for name, value in step(**inputs).items()
        }

    monkeypatch.setattr(predictor, "_step", broken)
    with pytest.raises(ExportError, match="not finite"):
        predictor.strip_for("")
    monkeypatch.undo()
    assert predictor.strip_for("").suggestions


@pytest.mark.parametrize("k", [0, -1])
def test_k_out_of_range_is_rejected(predictor, k):
    with pytest.raises(ValueError, match=f"`k` must be >= 1, got {k}"):
        predictor.suggest([], "", k)


@pytest.mark.parametrize(
    "other",
    [
        Vocabulary((*SPECIAL_WORDS, "a", "b"), VOCABULARY.rules),
        Vocabulary((*VOCABULARY.words[:-1], "other"), VOCABULARY.rules),
    ],
    ids=["fewer words", "other words"],
)
def test_the_vocabulary_of_another_run_is_rejected(path, other):
    with pytest.raises(ExportError, match="`vocabulary` must have the words"):
        KeyboardPredictor(path, other)


def copied(path, folder):
    for file in path.parent.glob("keyboard.*"):
        (folder / file.name).write_bytes(file.read_bytes())
    return folder / path.name


@pytest.mark.parametrize("suffix", [".tflite", ".vocabulary", ".json"])
@pytest.mark.parametrize("damage", ["missing", "cut", "flipped", "empty"])
def test_a_damaged_file_is_one_clear_line(path, tmp_path, suffix, damage):
    model = copied(path, tmp_path)
    file = model.with_suffix(suffix)
    data = bytearray(file.read_bytes())
    if damage == "missing":
        file.unlink()
    elif damage == "flipped":
        # Of the manifest, the hash of the model: elsewhere a change may be harmless.
        place = data.index(b'"sha256": "') + 12 if suffix == ".json" else len(data) // 2
        data[place] ^= 1
        file.write_bytes(data)
    else:
        file.write_bytes(data[: len(data) // 2] if damage == "cut" else b"")
    with pytest.raises(ExportError) as caught:
        KeyboardPredictor(model)
    assert "\n" not in str(caught.value)
    assert file.name in str(caught.value) or damage == "flipped"


@pytest.mark.parametrize("length", ["64", 1, -64, True, 10**9])
def test_a_training_length_that_is_none_is_refused(path, tmp_path, length):
    model = copied(path, tmp_path)
    content = json.loads(model.with_suffix(".json").read_text())
    content["model"]["training_length"] = length
    model.with_suffix(".json").write_text(json.dumps(content))
    with pytest.raises(ExportError, match="a field of the manifest"):
        KeyboardPredictor(model)


def test_a_file_of_another_kind_never_reaches_the_interpreter(path, tmp_path):
    from tflite_export.format import manifest

    model = copied(path, tmp_path)
    content = json.loads(model.with_suffix(".json").read_text())
    model.write_bytes(b"GGUF" * 100)
    content["model"] |= {"sha256": manifest.sha256(b"GGUF" * 100), "bytes": 400}
    model.with_suffix(".json").write_text(json.dumps(content))
    with pytest.raises(ExportError, match="not a TFLite model"):
        KeyboardPredictor(model)


def test_needs_no_tensorflow_to_import(tmp_path):
    """A phone has no TensorFlow, so no import of the runtime may need it."""
    code = (
        "import sys; sys.modules['tensorflow'] = None; sys.modules['scipy'] = None\n"
        "import tflite_export.runtime.keyboard_predictor, tflite_export.runtime.interpreters\n"
        "assert not [name for name in sys.modules if name.startswith('tensorflow.')]\n"
    )
    root = pathlib.Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root, timeout=600)


def test_a_runtime_that_is_not_installed_is_named(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ai_edge_litert", None)
    with pytest.raises(ExportError, match="pip install ai-edge-litert"):
        KeyboardPredictor(path, runtime="litert")
    with pytest.raises(ExportError, match="`runtime` must be one of"):
        KeyboardPredictor(path, runtime="other")


def test_a_folder_with_letters_of_any_script(path, tmp_path, predictor):
    """ggml-org/llama.cpp #5802, lightvector/KataGo #518: a user's name is part of the path."""
    folder = tmp_path / "Željko 碁"
    shutil.copytree(path.parent, folder)
    found = KeyboardPredictor(folder / path.name).strip_for(SENTENCE).suggestions
    assert_same(found, predictor.strip_for(SENTENCE).suggestions)


def test_outputs_stay_as_they_are_while_other_signatures_run(predictor):
    """LiteRT #8071: an output read later, after other calls, held something else."""
    c, h = predictor._zero_state()
    step = predictor.signature("step")
    first = step(token=np.array([BOS], np.int32), c=c, h=h)
    copies = {name: value.copy() for name, value in first.items()}
    predictor.signature("logits")(h=np.ones_like(h))
    predictor.log_probabilities(np.array([[BOS, 7, 8], [BOS, 9, PAD]], np.int32))
    step(token=np.array([7], np.int32), c=first["new_c"], h=first["new_h"])
    for name, value in first.items():
        np.testing.assert_array_equal(value, copies[name])
    again = step(token=np.array([BOS], np.int32), c=c, h=h)
    for name, value in again.items():
        np.testing.assert_array_equal(value, copies[name])
