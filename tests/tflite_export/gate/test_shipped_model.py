"""The shipped models are complete and small, and suggest words."""

import hashlib
import json
import pathlib

import numpy as np
import pytest

from tflite_export.runtime import interpreters
from tflite_export.runtime.hybrid_keyboard import open_keyboard

FOLDER = pathlib.Path("models")


BASES = ["base", "base_de", "base_es", "base_nl", "base_pt", "base_tr"]


@pytest.fixture(scope="module", params=["messages", *BASES])
def folder(request):
    return FOLDER / request.param


@pytest.fixture(scope="module")
def manifest(folder):
    return json.loads((folder / "keyboard.json").read_text())


def test_files_are_those_of_the_manifest(folder, manifest):
    for name, part in (
        ("tflite", manifest["model"]),
        ("ngram", manifest["ngram"]),
        ("tail", manifest["tail"]),
    ):
        content = (folder / f"keyboard.{name}").read_bytes()
        assert len(content) == part["bytes"]
        assert hashlib.sha256(content).hexdigest() == part["sha256"]


def test_is_small_and_passed_its_gate(folder, manifest):
    assert sum(path.stat().st_size for path in folder.glob("keyboard.*")) < 2_500_000
    assert manifest["parity"]["forgiven"] is None


@pytest.mark.parametrize(
    ("name", "context", "one_of"),
    [
        ("messages", "see you", {"later", "soon", "tomorrow"}),
        ("messages", "good", {"morning", "night", "evening"}),
        ("base", "thank you for your", {"help", "time", "support"}),
    ],
)
def test_shipped_model_suggests_common_phrases(name, context, one_of):
    keyboard = open_keyboard(FOLDER / name / "keyboard.tflite")
    strip = [word for word, _ in keyboard.suggest(context.split())]
    assert one_of & set(strip)
    assert all(word.startswith("don") for word, _ in keyboard.suggest(["your"], "don"))


def test_kernels_and_reused_interpreters_agree(folder):
    """LiteRT #8889: buffers reused too early. tensorflow #39253: second call differs from first."""
    path = folder / "keyboard.tflite"
    plain, fast, reused = (
        interpreters.open_interpreter(path, xnnpack=xnnpack).get_signature_runner("predict")
        for xnnpack in (False, True, True)
    )
    rng = np.random.default_rng(0)
    for _ in range(5):
        feed = {
            name: rng.integers(4, 500, each["shape"]).astype(each["dtype"])
            if np.issubdtype(each["dtype"], np.integer)
            else rng.normal(0, 0.1, each["shape"]).astype(each["dtype"])
            for name, each in plain.get_input_details().items()
        }
        answers = [call(**feed) for call in (plain, fast, reused, reused)]
        for answer in answers[1:]:
            np.testing.assert_array_equal(answer["ids"], answers[0]["ids"])
            np.testing.assert_allclose(
                answer["probabilities"], answers[0]["probabilities"], atol=0.01
            )
        for name, value in answers[2].items():
            np.testing.assert_array_equal(answers[3][name], value)


def test_the_readme_has_the_sizes_of_the_files(folder):
    text = (FOLDER / "README.md").read_text()
    sizes = {
        name: (folder / f"keyboard.{name}").stat().st_size
        for name in ("tflite", "vocabulary", "ngram", "tail")
    }
    if folder.name in BASES:  # a row for each model
        (row,) = [line for line in text.splitlines() if line.startswith(f"| `{folder.name}` |")]
        assert " | ".join(f"{size:,}" for size in sizes.values()) in row
    else:
        for name, size in sizes.items():
            assert f"| `keyboard.{name}` | {size:,} |" in text
