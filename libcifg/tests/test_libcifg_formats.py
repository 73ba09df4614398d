"""libcifg with every format of a model, its training, sanitizers, another processor, Java."""

import copy
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess

import numpy as np
import pytest
from tensorflow.lite.python import schema_py_generated as schema

from libcifg.tests import fuzz_seeds, vectors
from tests.support.keyboard import export_fakes, hybrid_export
from tff_keyboard.data.vocabulary import BOS, PAD
from tff_keyboard.predictors.hybrid.word_cache import WordCache
from tff_keyboard_app.keyboard import cache_file
from tff_keyboard_app.keyboard.user_history import UserHistory
from tff_keyboard_lab.benchmarks.phone import libcifg
from tff_keyboard_lab.benchmarks.phone.numpy_network import NumpyNetwork
from tflite_export.export.export_options import ExportOptions
from tflite_export.graphs.flatbuffer_builder import model_to_bytes
from tflite_export.graphs.trainable import WEIGHT_NAMES
from tflite_export.runtime.hybrid_keyboard import open_keyboard
from tflite_export.runtime.keyboard_predictor import KeyboardPredictor

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not libcifg.compiler(), reason="no C++ compiler"),
]

CROSS, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"
NEEDS_EMULATOR = pytest.mark.skipif(
    not (shutil.which(CROSS) and shutil.which(EMULATOR)), reason=f"no {CROSS} or {EMULATOR}"
)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return tmp_path_factory.mktemp("native")


@pytest.fixture(scope="module")
def library(built):
    return libcifg.make("libcifg.so", built)


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    """Returns an export, and its files with the same weights in other formats."""
    folder = tmp_path_factory.mktemp("exports")
    run = export_fakes.save_run(folder / "run")
    first = export_fakes.export(run, folder / "keyboard.tflite", ExportOptions()).paths.model
    return {
        kind: with_model(first, data, folder / kind) for kind, data in fuzz_seeds.models().items()
    }


def with_model(first, data, folder):
    """Returns a copy of an export with another model in it."""
    folder.mkdir()
    path = folder / first.name
    path.write_bytes(data)
    shutil.copy(first.with_suffix(".vocabulary"), folder)
    manifest = json.loads(first.with_suffix(".json").read_text())
    manifest["model"] |= {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    path.with_suffix(".json").write_text(json.dumps(manifest))
    return path


KINDS = pytest.mark.parametrize("kind", ["int8-rows", "trainable"])


@KINDS
@pytest.mark.parametrize("runtime", ["litert", "tensorflow"])
def test_strips_of_every_format(library, exports, kind, runtime):
    native = libcifg.NativeKeyboard(library, exports[kind])
    python = open_keyboard(exports[kind], runtime=runtime)
    for person in export_fakes.texts(people=2, messages=20).values():
        for message in person:
            for place, word in enumerate(message):
                for prefix in ("", word[:1]):
                    found = native.suggest(message[:place], prefix)
                    wanted = python.suggest(message[:place], prefix)
                    assert [word for word, _ in found] == [word for word, _ in wanted]
                    np.testing.assert_allclose(
                        [p for _, p in found], [p for _, p in wanted], rtol=2e-2
                    )


@KINDS
@pytest.mark.parametrize("runtime", ["litert", "tensorflow"])
def test_a_batch_has_the_scores_of_its_words_one_by_one(library, exports, kind, runtime):
    predictor = KeyboardPredictor(exports[kind], runtime=runtime)
    size = len(predictor.vocabulary)
    ids = np.random.default_rng(1).integers(2, size, [90, 6]).astype(np.int32)
    ids[:, 0], ids[:, 1] = BOS, 7 + np.arange(90) % 3  # many share a beginning
    ids[::4, 4:] = PAD
    ids[5] = PAD
    step, logits = predictor.signature("step"), predictor.signature("logits")
    expected = []
    for row in ids:
        c, h = predictor._zero_state()
        for word_id in row[row != PAD]:
            out = step(token=np.array([word_id], np.int32), c=c, h=h)
            c, h = out["new_c"], out["new_h"]
            scores = logits(h=h)["logits"][0].astype(np.float64)
            expected.append(scores - np.log(np.exp(scores).sum()))
    found = predictor.log_probabilities(ids)
    np.testing.assert_allclose(found, expected, atol=2e-5)
    predictor.read_states_with(library)
    # An input on the edge of a step of int8 may fall to either side.
    np.testing.assert_allclose(predictor.log_probabilities(ids), expected, atol=0.02)
    assert predictor.log_probabilities(np.zeros([2, 3], np.int32)).shape == (0, size)


@KINDS
def test_a_step_is_that_of_numpy(library, exports, kind):
    native, computed = libcifg.NativeKeyboard(library, exports[kind]), NumpyNetwork(exports[kind])
    c, h = np.zeros(native.sizes.units, np.float32), np.zeros(native.sizes.dim, np.float32)
    for token in (1, 7, 3, 40, 0, -1, 10**6, 17):
        out = computed.step([token], c[np.newaxis].copy(), h[np.newaxis].copy())
        native.step(token, c, h)
        np.testing.assert_allclose(c, out["new_c"][0], atol=2e-5)
        # An input on the edge of a step of int8 may fall to either side.
        np.testing.assert_allclose(h, out["new_h"][0], atol=0.02)
        scores = computed.logits(h[np.newaxis])["logits"][0]
        np.testing.assert_allclose(native.logits(h), scores, rtol=1e-4, atol=1e-4)


def test_a_file_that_assigns_without_end_is_refused(library, exports, tmp_path):
    model = schema.ModelT.InitFromPackedBuf(exports["trainable"].read_bytes(), 0)
    assign = next(
        index
        for index, code in enumerate(model.operatorCodes)
        if code.builtinCode == schema.BuiltinOperator.ASSIGN_VARIABLE
    )
    graph = next(
        graph
        for graph in model.subgraphs
        if sum(node.opcodeIndex == assign for node in graph.operators) == len(WEIGHT_NAMES)
    )
    endless = copy.deepcopy(graph)
    node = next(node for node in endless.operators if node.opcodeIndex == assign)
    node.inputs[1] = node.inputs[0]  # which is no value
    endless.operators += 1000 * [node]
    model.subgraphs.append(model.subgraphs[0])
    model.subgraphs[0] = endless
    first = model.signatureDefs[0]
    assert first.subgraphIndex == 0
    first.subgraphIndex = len(model.subgraphs) - 1
    path = with_model(exports["trainable"], model_to_bytes(model), tmp_path / "endless")
    with pytest.raises(ValueError, match="a weight of the trainable model has another size"):
        libcifg.NativeKeyboard(library, path)


def test_a_file_with_inputs_without_end_is_refused(library, exports, tmp_path):
    model = schema.ModelT.InitFromPackedBuf(exports["trainable"].read_bytes(), 0)
    for signature in model.signatureDefs:
        if signature.signatureKey == b"set_weights":
            signature.inputs *= 20
    path = with_model(exports["trainable"], model_to_bytes(model), tmp_path / "inputs")
    with pytest.raises(ValueError, match="`set_weights` takes more than weights"):
        libcifg.NativeKeyboard(library, path)


@pytest.mark.parametrize("runtime", ["litert", "tensorflow"])
def test_a_training_step_is_that_of_the_signature(library, exports, runtime):
    native = libcifg.NativeKeyboard(library, exports["trainable"])
    python = open_keyboard(exports["trainable"], runtime=runtime)
    train, weights = python.signature("train"), python.signature("weights")
    for tokens in ([1, 5, 9, 2], [1, 5, 9, 30, 3, 5, 2, 0, 0], [1, 2], [1], [1, 99, -5, 2]):
        for name, value in weights().items():  # the same before each step
            native.set_weights(name, value)
        loss = native.train(tokens, 0.05)
        out = train(tokens=np.array([tokens], np.int32), learning_rate=np.float32(0.05))
        assert loss == pytest.approx(float(out["loss"]), abs=1e-5)
        for name, value in weights().items():
            np.testing.assert_allclose(native.weights(name), value.ravel(), rtol=0, atol=1e-6)


def test_weights_can_be_exchanged(library, exports):
    native = libcifg.NativeKeyboard(library, exports["trainable"])
    before = {name: native.weights(name) for name in WEIGHT_NAMES}
    strip = native.suggest(["see"])
    native.train([1, 5, 9, 2], 0.5)
    assert native.suggest(["see"]) != strip
    for name, value in before.items():
        native.set_weights(name, value)
    assert native.suggest(["see"]) == strip
    with pytest.raises(ValueError, match="size"):
        native.set_weights("bias", np.zeros(3))
    with pytest.raises(ValueError, match="finite"):
        native.set_weights("bias", np.full(before["bias"].shape, np.nan))


def test_hybrid_with_a_cache(library, tmp_path):
    tail = fuzz_seeds.tail()
    path = hybrid_export.export_hybrid(tmp_path, quantization="int8-rows", tail=tail)
    native, python = libcifg.NativeKeyboard(library, path), open_keyboard(path)
    for person in export_fakes.texts(people=2, messages=20).values():
        for message in person:
            for place, word in enumerate(message):
                for prefix in ("", word[:1], word[:2]):
                    found = native.suggest(message[:place], prefix)
                    wanted = python.suggest(message[:place], prefix)
                    assert [word for word, _ in found] == [word for word, _ in wanted]
            native.learn(message)
            python.learn(message)
    assert native.suggest(["see"], "johann") == [("johannisburg", pytest.approx(0.05, abs=0.05))]
    cache_file.save(python.cache, tmp_path / "cache")
    assert native.cache() == (tmp_path / "cache").read_bytes()


def test_every_reader_has_first_cases_for_the_fuzzer(tmp_path):
    fuzz_seeds.write(tmp_path)
    source = (libcifg.SOURCE / "tests" / "fuzz.cc").read_text()
    readers = set(re.findall(r"maybe_unused\]\] void (\w+)\(", source))
    assert readers == {folder.name for folder in (tmp_path / "seeds").iterdir()}
    packed, stored = (tmp_path / "seeds" / "ngram" / f"seed{level}" for level in (1, 0))
    assert b"dinner\n" not in packed.read_bytes()
    assert b"dinner\n" in stored.read_bytes()


class TestOtherBuilds:
    """Every build prints the same lines: texts, a cache, states, three steps of training."""

    @pytest.fixture(scope="class")
    def inputs(self, tmp_path_factory):
        folder = tmp_path_factory.mktemp("inputs")
        texts = [text for text in vectors.TYPED if "\n" not in text]
        (folder / "texts").write_text("\n".join([*texts, "see you at johann's", "i am coming"]))
        cache = WordCache()
        for message in vectors.LEARNT:
            cache.observe([word if word and "7" not in word else None for word in message])
        cache_file.save(cache, folder / "cache")
        return folder

    @pytest.fixture(scope="class")
    def lines(self, built, inputs, exports):
        program = libcifg.make("strips", built)
        return self.run(inputs, exports, program)

    @staticmethod
    def run(inputs, exports, *command):
        found = {}
        for model in (vectors.MODEL, *exports.values()):
            arguments = [*command, model, inputs / "texts", inputs / "cache"]
            done = subprocess.run(arguments, capture_output=True, text=True, check=False)
            assert (done.returncode, done.stderr) == (0, "")
            found[model] = done.stdout
        return found

    def test_what_they_print(self, lines, exports):
        assert " at 0." in lines[vectors.MODEL]
        assert "loss" in lines[exports["trainable"]]

    @pytest.mark.skipif(not shutil.which("g++"), reason="no g++")
    def test_sanitizers_find_nothing(self, built, inputs, exports, lines):
        program = libcifg.make("strips_checked", built)
        checked = self.run(inputs, exports, program)
        for model in (vectors.MODEL, exports["int8-rows"]):
            assert checked[model] == lines[model]

    @pytest.mark.parametrize(
        "build",
        [
            "threads",
            pytest.param(
                "threads_checked",
                marks=pytest.mark.skipif(not shutil.which("g++"), reason="no g++"),
            ),
        ],
        ids=["plain", "ThreadSanitizer"],
    )
    def test_eight_threads_have_the_strips_of_one(self, built, inputs, exports, build):
        program = libcifg.make(build, built)
        for lines in self.run_threads(inputs, exports, program):
            assert lines == "all right\n"

    @staticmethod
    def run_threads(inputs, exports, program):
        for model in (vectors.MODEL, *exports.values()):
            done = subprocess.run(
                [program, model, inputs / "texts"], capture_output=True, text=True, check=False
            )
            assert (done.returncode, done.stderr) == (0, ""), done.stdout
            yield done.stdout

    # With flags of somebody else, too, who does not know that products must be rounded.
    @pytest.mark.parametrize("options", [[], ["CXXFLAGS=-std=c++17 -O2 -Wno-psabi"]])
    @NEEDS_EMULATOR
    def test_aarch64_computes_the_same(self, built, inputs, exports, lines, options):
        out = built / f"aarch64{len(options)}"
        program = libcifg.make("strips", out, f"CXX={CROSS}", "STATIC=-static", *options)
        assert self.run(inputs, exports, EMULATOR, program) == lines

    def test_one_header_is_the_library(self, built, tmp_path):
        header = libcifg.make("cifg.hpp", built)
        source = tmp_path / "one.cc"
        source.write_text(
            f'#include "{header}"\nint main() {{ return cifg::Keyboard().open({{}}).empty(); }}\n'
        )
        program = tmp_path / "one"
        subprocess.run(["g++", "-std=c++17", source, "-o", program], check=True)
        assert subprocess.run([program], check=False).returncode == 0


def java_home():
    javac = shutil.which("javac")
    return pathlib.Path(javac).resolve().parents[1] if javac else None


@pytest.mark.skipif(java_home() is None, reason="no JDK")
def test_java(built, tmp_path):
    """The wrapper, from the JVM: a strip, letters that are not ASCII, learning, an error."""
    home, source = java_home(), libcifg.SOURCE / "jni"
    libcifg.make("libcifg_jni.so", built, f"JAVA_HOME={home}")
    sources = {path.name: path.read_text() for path in source.rglob("*.java")}
    done = run_java(built, tmp_path / "whole", sources)
    assert done.stdout.splitlines() == ["all right"], done.stdout + done.stderr
    keyboard, path = open_keyboard(vectors.MODEL), tmp_path / "words.cache"
    owner = UserHistory([keyboard], keyboard.cache, path)
    for message in ("See you at Johann’s", "my zhqvx_2 pin. Xyzzq"):
        for _ in range(2):
            owner.learn(message)
    assert (tmp_path / "whole" / "words.cache").read_bytes() == path.read_bytes()
    # Without NFKC, as a shrinker leaves it that finds no caller; and with one that throws.
    nfkc = "static byte[] nfkc(byte[] utf8) {"
    renamed = sources["Cifg.java"].replace(nfkc, nfkc.replace("nfkc", "a"))
    done = run_java(built, tmp_path / "shrunk", sources | {"Cifg.java": renamed})
    assert "NoSuchMethodError: nfkc" in done.stderr
    throws = f'{nfkc} if (utf8.length > 0) throw new RuntimeException("no NFKC");'
    throwing = sources["Cifg.java"].replace(nfkc, throws)
    done = run_java(built, tmp_path / "throwing", sources | {"Cifg.java": throwing})
    assert "RuntimeException: no NFKC" in done.stderr
    assert "FATAL" not in done.stdout


def run_java(built, folder, sources):
    folder.mkdir()
    for name, text in sources.items():
        (folder / name).write_text(text)
    subprocess.run(["javac", "-d", folder, *(folder / name for name in sources)], check=True)
    command = ["java", "-Xcheck:jni", f"-Djava.library.path={built}", "-cp", folder]
    return subprocess.run(
        [*command, "org.cifg.CifgTest", vectors.MODEL, folder / "words.cache"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )
