"""Exports of models other than the CIFG: the same gate, streaming, and refusals."""

import dataclasses
import pathlib

import numpy as np
import pytest

from tests.support import user_models
from tests.support.keyboard import export_fakes
from tff_keyboard.models import build_model
from tff_keyboard.predictors.keras_predictor import KerasPredictor
from tff_keyboard.storage.errors import CheckFailed, ExportError
from tflite_export.export import export as exporting
from tflite_export.export.export_options import ExportOptions
from tflite_export.export.trained_run import TrainedRun
from tflite_export.gate import stored_table
from tflite_export.graphs import streaming
from tflite_export.runtime.hybrid_keyboard import open_keyboard
from tflite_export.runtime.libcifg import Libcifg, built_library

VOCABULARY = export_fakes.vocabulary()
SIZE = len(VOCABULARY)
TEXTS = export_fakes.texts()
FILE = user_models.__file__
# Large enough that the converter quantises the weights.
CASES = {
    "gru": ("gru", {"units": 64, "embedding_size": 64}, [64, 64]),
    "gru tied": ("gru", {"units": 64, "embedding_size": 64, "tied": True}, [64, 64]),
    "lstm2": ("lstm2", {"units": 64, "embedding_size": 32}, [256, 64]),
    "lstm2 tied": ("lstm2", {"units": 64, "embedding_size": 32, "tied": True}, [256, 32]),
    "transformer": ("transformer", {"embedding_size": 32, "layers": 2, "window": 8}, [1032, 32]),
    "si_cifg": ("si_cifg", {"units": 96, "embedding_size": 32}, [128, 32]),
    "Keras GRU": (f"{FILE}:gru", {"units": 64}, [32, SIZE]),
    "Keras attention": (f"{FILE}:attention", {"units": 64}, [6, SIZE]),
    "Keras with step": (f"{FILE}:Streaming", {"units": 64}, [64, SIZE]),
    "step equations": (f"{FILE}:Elman", {"units": 64}, [64, 64]),
}


def run_of(directory, case):
    name, options, _ = CASES[case]
    model = build_model(name, vocabulary_size=SIZE, seed=1, **options)
    rng = np.random.default_rng(1)
    for variable in model.trainable_variables:
        fan = 1 if SIZE in variable.shape else variable.shape[0]
        variable.assign(rng.normal(0.0, 0.6 if fan == 1 else 1.5 / fan**0.5 / 2, variable.shape))
    return TrainedRun(pathlib.Path(directory), model, VOCABULARY)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("quantization", ["none", "auto"])
def test_passes_the_gate_and_is_a_keyboard(tmp_path, case, quantization):
    run = run_of(tmp_path, case)
    path = tmp_path / "k.tflite"
    options = ExportOptions(quantization=quantization, allow_loss=True)
    result = exporting.export(run, path, options, held_out=TEXTS)
    assert result.parity.relative_errors[0] < (1e-5 if quantization == "none" else 0.06)
    assert result.parity.same_best > 0.93
    keyboard = open_keyboard(path, VOCABULARY)
    facts = keyboard.manifest.model
    assert [facts.state_sizes.c, facts.state_sizes.h] == CASES[case][2]
    assert facts.quantization == {"none": "none", "auto": "int8"}[quantization]
    assert "/" not in facts.name  # no place of a user's file
    rng = np.random.default_rng(2)
    ids = np.concatenate([np.ones([3, 1], int), rng.integers(3, SIZE, [3, 40])], axis=1)
    keras = KerasPredictor(run.model, VOCABULARY)
    expected, scores = (p.log_probabilities(ids.astype(np.int32)) for p in (keras, keyboard))
    error = np.sqrt(np.square(scores - expected).mean())
    assert error < (1e-4 if quantization == "none" else 0.1) * expected.std()
    if quantization == "none":
        context = ["see", "you", "there", "unheard"]
        for typed, k in (("", 3), ("l", 3), ("", 9)):
            words = [word for word, _ in keyboard.suggest(context, typed, k)]
            assert words == [word for word, _ in keras.suggest(context, typed, k)]


def test_a_gru_in_int8_is_a_third_of_its_float_file(tmp_path):
    sizes = {}
    for quantization in ("none", "int8"):
        options = ExportOptions(quantization=quantization)
        result = exporting.export(run_of(tmp_path, "gru"), tmp_path / "k.tflite", options)
        sizes[quantization] = result.model_bytes
    assert sizes["int8"] < 0.35 * sizes["none"]


def test_operators_outside_the_built_in_set_are_named(tmp_path):
    path = tmp_path / "models.py"
    path.write_text(
        "import tensorflow as tf\n"
        "def model(vocabulary_size):\n"
        "    L = tf.keras.layers\n"
        "    return tf.keras.Sequential([L.Embedding(vocabulary_size, 4), L.Dense(vocabulary_size),"
        " L.Lambda(tf.math.digamma), L.Lambda(lambda x: tf.clip_by_value(x, -9., 9.))])\n"
    )
    model = build_model(f"{path}:model", vocabulary_size=SIZE, seed=1)
    with pytest.raises(ExportError, match="not built into TFLite: Digamma") as caught:
        exporting.export(
            TrainedRun(tmp_path, model, VOCABULARY),
            tmp_path / "k.tflite",
            ExportOptions(quantization="auto"),
        )
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "k.tflite").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"quantization": "int8-rows"}, "`quantize` = 'int8-rows' requires `model.type` = 'cifg'"),
        ({"quantization": "auto", "trainable": True}, "`trainable` requires `model.type`"),
    ],
)
def test_formats_of_the_cifg_are_refused(tmp_path, options, message):
    with pytest.raises(ExportError, match=message):
        exporting.export(run_of(tmp_path, "gru"), tmp_path / "k.tflite", ExportOptions(**options))
    assert not list(tmp_path.iterdir())


def test_auto_is_rows_for_the_cifg():
    options = ExportOptions(quantization="auto", top_k=5)
    assert options.for_model("cifg") == dataclasses.replace(options, quantization="int8-rows")
    assert ExportOptions(quantization="none").for_model("gru").quantization == "none"


def test_weights_that_are_not_finite_are_refused(tmp_path):
    run = run_of(tmp_path, "gru")
    run.model.bias.assign(run.model.bias * np.nan)
    with pytest.raises(ExportError, match="NaN or infinity"):
        exporting.export(run, tmp_path / "k.tflite", ExportOptions(quantization="none"))


@pytest.mark.parametrize("name", ["embedding", "output_table"])
def test_a_wrong_row_of_either_table_is_noticed(tmp_path, name):
    run = run_of(tmp_path, "gru")
    rows = np.arange(SIZE)
    weights = streaming.StreamingWeights.from_model(run.model, rows)
    data = streaming.convert(weights, "int8", top_k=3)
    for tables in streaming.tables_of(run.model).values():
        for table in tables:
            stored_table.check_table(data, table, weights.copies(table.shape))
    (place,) = [i for i, v in enumerate(run.model.trainable_variables) if v.name.startswith(name)]
    table = run.model.trainable_variables[place].numpy()
    table[[5, 6]] = table[[6, 5]]
    with pytest.raises(CheckFailed, match="2 of the"):
        stored_table.check_table(data, table, weights.copies(table.shape))


def test_libcifg_refuses_it_in_one_line(tmp_path):
    library = built_library()
    if library is None:
        pytest.skip("`make native` builds libcifg")
    exporting.export(
        run_of(tmp_path, "gru"), tmp_path / "k.tflite", ExportOptions(quantization="none")
    )
    with pytest.raises(ExportError, match="not a CIFG") as caught:
        Libcifg(library, tmp_path / "k.tflite")
    assert "\n" not in str(caught.value)
