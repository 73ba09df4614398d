"""libcifg with every format of a model, its training, sanitizers, another processor, Java."""

import dataclasses
import hashlib
import json
import os
import pathlib
import shutil
import subprocess

import numpy as np
import pytest

from benchmarks.phone import libcifg
from tests.support.keyboard import export_fakes, hybrid_export
from tests.tflite_export.native import vectors
from tff_keyboard.predictors.hybrid import cache_file
from tff_keyboard.predictors.hybrid.word_cache import WordCache
from tflite_export.export.export_options import ExportOptions
from tflite_export.format import vocabulary_file
from tflite_export.graphs import row_scaled, trainable
from tflite_export.graphs.cifg_weights import CifgWeights
from tflite_export.graphs.quantization import quantize_rows_int4
from tflite_export.graphs.trainable import WEIGHT_NAMES
from tflite_export.runtime.hybrid_keyboard import open_keyboard

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
    """An export, and its files with the same weights in other formats."""
    folder = tmp_path_factory.mktemp("exports")
    run = export_fakes.save_run(folder / "run")
    first = export_fakes.export(run, folder / "keyboard.tflite", ExportOptions()).paths.model
    weights = CifgWeights.from_model(export_fakes.model())
    table = weights.embedding[vocabulary_file.sorted_rows(export_fakes.vocabulary())]
    weights = dataclasses.replace(weights, embedding=table)
    int4 = quantize_rows_int4(table, np.eye(weights.dim))
    models = {
        "int8-rows": first.read_bytes(),
        "int4-rows": row_scaled.build(weights, int4, top_k=3),
        "trainable": trainable.build(weights, top_k=3),
    }
    return {kind: with_model(first, data, folder / kind) for kind, data in models.items()}


def with_model(first, data, folder):
    """A copy of an export with another model in it."""
    folder.mkdir()
    path = folder / first.name
    path.write_bytes(data)
    shutil.copy(first.with_suffix(".vocabulary"), folder)
    manifest = json.loads(first.with_suffix(".json").read_text())
    manifest["model"] |= {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    path.with_suffix(".json").write_text(json.dumps(manifest))
    return path


@pytest.mark.parametrize("kind", ["int8-rows", "int4-rows", "trainable"])
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
    path = hybrid_export.export_hybrid(tmp_path, quantization="int8-rows")
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
    cache_file.save(python.cache, tmp_path / "cache")
    assert native.cache() == (tmp_path / "cache").read_bytes()


class TestOtherBuilds:
    """The same lines from every build: texts, a cache, states, three steps of training."""

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
        for model in (vectors.MODEL, exports["int8-rows"], exports["int4-rows"]):
            assert checked[model] == lines[model]

    @NEEDS_EMULATOR
    def test_aarch64_computes_the_same(self, built, inputs, exports, lines):
        out = built / "aarch64"
        program = libcifg.make("strips", out, f"CXX={CROSS}", "STATIC=-static")
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
    sources = [*source.rglob("*.java")]
    subprocess.run(["javac", "-d", tmp_path, *sources], check=True)
    command = ["java", f"-Djava.library.path={built}", "-cp", tmp_path, "org.cifg.CifgTest"]
    done = subprocess.run(
        [*command, vectors.MODEL, vectors.FILE],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )
    assert done.stdout.splitlines()[-1:] == ["all right"], done.stdout + done.stderr
