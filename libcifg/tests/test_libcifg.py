"""libcifg against Python: tokens, strips, learning, hostile files; each vector for both."""

import hashlib
import json
import shutil

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from libcifg.tests import unicode_tables, vectors
from tests.support.keyboard import lexicons
from tff_keyboard.data.text import word_characters
from tff_keyboard.data.text.python_tokenizer import PythonTokenizer
from tff_keyboard.data.text.word_characters import parse_ranges
from tff_keyboard.data.vocabulary import NormalisationRules, Vocabulary
from tff_keyboard.predictors.hybrid.word_cache import WordCache
from tff_keyboard.storage.errors import ExportError
from tff_keyboard_app.keyboard import cache_file
from tff_keyboard_lab.benchmarks.phone import libcifg
from tflite_export.format import tail_file, vocabulary_file
from tflite_export.runtime.hybrid_keyboard import open_keyboard

pytestmark = pytest.mark.skipif(not libcifg.compiler(), reason="no C++ compiler")

MODEL = vectors.MODEL
VECTORS = json.loads(vectors.FILE.read_text())
MAX_BYTES = 152_000
MIXED = st.text(
    st.one_of(
        st.sampled_from("aAzZ09_'-`<>#.,: \t\n@/"),
        st.sampled_from("ßİΣσé\u0301ﬁＡ\u200c\u200d\ufe0f\U0001f44d\U0001f3fd\U0001f1e9ǅ한漢٣²½…"),
        st.characters(),
    ),
    max_size=40,
)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return libcifg.make("libcifg.so", tmp_path_factory.mktemp("native"))


@pytest.fixture
def native(library):
    keyboard = libcifg.NativeKeyboard(library, MODEL)
    yield keyboard
    keyboard.close()


@pytest.fixture(scope="module")
def python():
    return open_keyboard(MODEL)


@pytest.fixture
def copy(tmp_path):
    for path in MODEL.parent.glob("keyboard.*"):
        shutil.copy(path, tmp_path)
    return tmp_path / MODEL.name


def check_strip(found, wanted):
    assert [word for word, _ in found] == [word for word, _ in wanted]
    np.testing.assert_allclose([p for _, p in found], [p for _, p in wanted], rtol=1e-3)


def test_vectors_are_those_of_python():
    made = vectors.vectors()
    assert made.keys() == VECTORS.keys()
    for name, cases in made.items():
        for case, wanted in zip(cases, VECTORS[name], strict=True):
            if "strip" in case:
                check_strip(case["strip"], wanted["strip"])
            else:
                assert case == wanted


@pytest.mark.parametrize("name", vectors.RULES)
def test_tokens(library, copy, python, name):
    manifest = json.loads(copy.with_suffix(".json").read_text())
    words = Vocabulary(python.vocabulary.words, vectors.RULES[name])
    data = vocabulary_file.encode(words)
    copy.with_suffix(".vocabulary").write_bytes(data)
    manifest["vocabulary"]["sha256"] = hashlib.sha256(data).hexdigest()
    del manifest["ngram"], manifest["mixture"]  # of the rules before
    copy.with_suffix(".json").write_text(json.dumps(manifest))
    keyboard = libcifg.NativeKeyboard(library, copy)
    for case in VECTORS[name]:
        assert keyboard.tokens(case["text"]) == case["tokens"]


@pytest.mark.parametrize("name", ["context and prefix", "strips"])
def test_strips(native, name):
    for case in VECTORS[name]:
        prefix, suggestions = native.strip_for(case["text"])
        if "strip" in case:
            check_strip(suggestions, case["strip"])
        else:
            assert prefix == case["prefix"]
            assert suggestions == native.suggest(case["context"], prefix)


def test_learning_and_forgetting(native, python):
    for case in VECTORS["learnt"]:
        native.learn(case["message"])
    for case in VECTORS["strips after learning"]:
        check_strip(native.strip_for(case["text"])[1], case["strip"])
    native.forget("johann's")
    assert b"johann" not in native.cache()
    native.forget()
    for case in VECTORS["strips"]:
        check_strip(native.strip_for(case["text"])[1], case["strip"])


def test_cache_is_the_same_file(native, tmp_path):
    cache, path = WordCache(), tmp_path / "cache"
    random = np.random.default_rng(1)
    words = ["see", "you", "o'hara", "7:30", 'a"b\\', "é", "<url>", None, "x" * 41]
    for _ in range(60):
        message = [words[i] for i in random.integers(len(words), size=random.integers(2, 9))]
        learnt = [word if word and "7" not in word else None for word in message]
        kept = [word for word in message[:1] if word]
        cache.observe(learnt, kept)
        native.learn(message, kept)
    cache_file.save(cache, path)
    assert native.cache() == path.read_bytes()
    native.forget()
    native.set_cache(path.read_bytes())
    assert native.cache() == path.read_bytes()
    with pytest.raises(ValueError, match="damaged"):
        native.set_cache(path.read_bytes()[:-9])


def test_forms_of_words_stay_until_their_word_is_gone(native, tmp_path):
    cache, path = WordCache(), tmp_path / "cache"
    cache.observe(["see", "zofia", "anna"], forms=["see", "Zofia", "Anna"])
    cache_file.save(cache, path)
    native.set_cache(path.read_bytes())
    assert native.cache() == path.read_bytes()
    cache.observe(["see", "zofia"])
    native.learn(["see", "zofia"])
    cache.forget(["anna"])
    native.forget("anna")
    cache_file.save(cache, path)
    assert native.cache() == path.read_bytes()
    assert b'"forms":{"zofia":{"Zofia":1}}' in native.cache()
    for _ in range(400):  # the name decays
        cache.observe(["see"] * 8)
        native.learn(["see"] * 8)
    cache_file.save(cache, path)
    assert native.cache() == path.read_bytes()
    assert b"forms" not in native.cache()


@pytest.mark.parametrize(
    "forms",
    [
        '{"zofia":{"Zofia":9}}',
        '{"zofia":{}}',
        '{"anna":{"Anna":1}}',
        '{"see":{"Seen":1}}',
        '{"see":{"S11":1}}',
        "[]",
        '{"see":3}',
    ],
)
def test_forms_that_no_use_explains_are_refused(native, tmp_path, forms):
    cache, path = WordCache(), tmp_path / "cache"
    cache.observe(["see", "zofia"])
    cache_file.save(cache, path)
    data = path.read_bytes().replace(b'"half_life"', f'"forms":{forms},"half_life"'.encode())
    with pytest.raises(ValueError, match=r"range|kind"):
        native.set_cache(data)
    path.write_bytes(data)
    with pytest.raises(cache_file.DamagedCacheError):
        cache_file.load(path)


@given(text=MIXED)
@settings(deadline=None)
def test_tokens_of_any_text(library, text):
    keyboard = opened(library)
    text = text.replace("\0", " ")
    assert keyboard.tokens(text) == PythonTokenizer(NormalisationRules()).tokenize_one(text)


def test_tokens_of_long_runs(native):
    tokenize = PythonTokenizer(NormalisationRules()).tokenize_one
    for text in ("x" * 2500, "é" * 1001 + " b", "ab\u0301" * 700, "12." * 900):
        assert native.tokens(text) == tokenize(text)


@given(text=MIXED, repeats=st.integers(1, 60))
@example(text="\ud800", repeats=1)  # a lone surrogate is a question mark
@settings(deadline=None, max_examples=30)
def test_context_of_any_text(library, python, text, repeats):
    text = (text.replace("\0", " ") + " ok ") * repeats
    context, prefix = python.context_and_prefix(text)
    keyboard = opened(library)
    found, suggestions = keyboard.strip_for(text)
    assert found == prefix
    assert suggestions == keyboard.suggest(context, prefix)


_opened = {}


def opened(library):
    """Opens one keyboard for all examples of a property."""
    if library not in _opened:
        _opened[library] = libcifg.NativeKeyboard(library, MODEL)
    return _opened[library]


def test_step_and_logits_are_those_of_the_interpreter(native, python):
    network = python.network
    c, h = np.zeros(native.sizes.units, np.float32), np.zeros(native.sizes.dim, np.float32)
    their_c, their_h = c[np.newaxis].copy(), h[np.newaxis].copy()
    step, logits = network.signature("step"), network.signature("logits")
    for token in (1, 700, 3, 2500, 0, -1, 10**6, 17):
        native.step(token, c, h)
        out = step(token=np.array([token], np.int32), c=their_c, h=their_h)
        their_c, their_h = out["new_c"], out["new_h"]
        np.testing.assert_allclose(c, their_c[0], atol=2e-5)
        # An input on the edge of a step of int8 may fall to either side.
        np.testing.assert_allclose(h, their_h[0], atol=0.02)
        np.testing.assert_allclose(
            native.logits(h), logits(h=h[np.newaxis])["logits"][0], atol=1e-4
        )


class TestHostileFiles:
    """Hostile files give an error in one line, never a crash."""

    @pytest.mark.parametrize("ending", [".tflite", ".vocabulary", ".json", ".ngram", ".tail"])
    def test_each_part_is_needed_whole(self, library, copy, ending):
        path = copy.with_suffix(ending)
        data = path.read_bytes()
        for damaged in (b"", data[: len(data) // 2], data[:-2], b"x" + data[1:], data + b"x"):
            path.write_bytes(damaged)
            with pytest.raises(ValueError, match=r"^.+$"):
                libcifg.NativeKeyboard(library, copy)
        path.unlink()
        with pytest.raises(ValueError):
            libcifg.NativeKeyboard(library, copy)

    def test_lexicons_are_refused_as_in_python(self, library, copy, python):
        hidden = parse_ranges(word_characters.HIDDEN_RANGES)
        ends = {code for pair in hidden for code in pair}
        around = {code + step for code in ends for step in (-1, 0, 1) if code + step >= 0}
        words = [f"quay{chr(code)}x".encode("utf-8", "surrogatepass") for code in sorted(around)]
        words += [*lexicons.REFUSED.values(), b"the", b"<pad>", b"<3", b"<<url>", b"quay"]
        words += [word.encode() for word in lexicons.ACCEPTED]
        manifest, refused = json.loads(copy.with_suffix(".json").read_text()), 0
        for part in ("ngram", "mixture"):  # not needed, and slow to open
            manifest.pop(part, None)
        for word in words:
            data = lexicons.forged(word)
            manifest["tail"] |= {"sha256": hashlib.sha256(data).hexdigest()}
            copy.with_suffix(".tail").write_bytes(data)
            copy.with_suffix(".json").write_text(json.dumps(manifest))
            try:
                tail_file.decode(data, python.vocabulary)
            except ExportError:
                refused += 1
                with pytest.raises(ExportError, match=r"^.*tail lexicon: .+$"):
                    libcifg.NativeKeyboard(library, copy)
            else:
                libcifg.NativeKeyboard(library, copy).close()
        assert len(lexicons.REFUSED) + len(ends) < refused < len(words) - len(hidden)

    def test_values_out_of_range(self, native):
        c, h = np.zeros(native.sizes.units, np.float32), np.zeros(native.sizes.dim, np.float32)
        c[3] = np.nan
        with pytest.raises(ValueError, match="finite"):
            native.step(5, c, h)
        with pytest.raises(ValueError, match="trainable"):
            native.train([1, 5, 2], 0.5)
        with pytest.raises(ValueError, match="trainable"):
            native.weights("bias")
        assert len(native.suggest([], "", 50)) == 50


def test_the_library_is_small_and_needs_no_other(library):
    assert library.stat().st_size <= MAX_BYTES


def test_tables_of_characters_are_up_to_date():
    if unicode_tables.unicodedata.unidata_version != "14.0.0":
        pytest.skip("numbers of another edition of Unicode")
    assert (libcifg.SOURCE / "cifg" / "unicode.h").read_text() == unicode_tables.source()


def test_a_closed_keyboard_and_a_wrong_state_are_refused(library):
    keyboard = libcifg.NativeKeyboard(library, MODEL)
    c, h = np.zeros(keyboard.sizes.units, np.float32), np.zeros(keyboard.sizes.dim, np.float32)
    for wrong in (c[:-1], c.astype(np.float64), np.zeros(2 * len(c), np.float32)[::2]):
        with pytest.raises(ValueError, match="two contiguous float32 arrays"):
            keyboard.step(5, wrong, h)
    keyboard.close()
    keyboard.close()
    with pytest.raises(ValueError, match="is closed"):
        keyboard.tokens("see you")
