"""The written graphs of every kind, against the CIFG in NumPy with the stored weights."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests.support.keyboard import export_fakes
from tff_keyboard.data.vocabulary import BOS, NUM_SPECIAL, OOV, PAD
from tff_keyboard.models import build_model
from tff_keyboard.storage.errors import ExportError
from tflite_export.format import inspection, signatures
from tflite_export.graphs import converter, quantization, row_scaled, trainable
from tflite_export.graphs.cifg_weights import CifgWeights

WEIGHTS = CifgWeights.from_model(export_fakes.model())
V, UNITS, DIM = WEIGHTS.vocabulary_size, WEIGHTS.units, WEIGHTS.dim
TOP_K = 3
IDS = np.array([BOS, 7, 30, 5, 12, OOV, 9, 22], np.int32)

KINDS = ("none", "int8", "int8-rows", "trainable")
# Root mean square error of the logits / their standard deviation. Weights are compared as stored;
# quantised graphs round activations to 8 bits on the way.
LOGIT_TOLERANCE = {"none": 1e-6, "trainable": 1e-6}
QUANTIZED_TOLERANCE = 0.04


def written(kind, weights=WEIGHTS, top_k=TOP_K):
    if kind == "trainable":
        return trainable.build(weights, top_k=top_k)
    if kind == "int8-rows":
        return row_scaled.build(weights, quantization.quantize_rows(weights.embedding), top_k=top_k)
    return converter.convert(weights, kind, top_k=top_k)


def stored(kind):
    """Returns the weights as the file stores them."""

    def by_tensor(matrix):
        return quantization.quantize_tensor(matrix).dequantized()

    def by_row(matrix):
        return quantization.quantize_rows(matrix).dequantized()

    if kind == "none":
        return WEIGHTS
    if kind == "int8":
        return export_fakes.map_matrices(WEIGHTS, by_tensor)
    if kind == "int8-rows":
        rows = by_row(WEIGHTS.embedding)
        return dataclasses.replace(export_fakes.map_matrices(WEIGHTS, by_tensor), embedding=rows)
    joined = export_fakes.stored_weights(WEIGHTS)
    return CifgWeights(
        embedding=joined["embedding"],
        kernels=tuple(np.split(joined["kernel"], 3, axis=1)),
        recurrent_kernels=tuple(np.split(joined["recurrent_kernel"], 3, axis=1)),
        biases=WEIGHTS.biases,
        projection=joined["projection"],
    )


class File:
    """A written file in the interpreter."""

    def __init__(self, kind):
        self.data = written(kind)
        self._interpreter = tf.lite.Interpreter(model_content=self.data, num_threads=1)

    def __getattr__(self, name):
        return self._interpreter.get_signature_runner(name)

    def stepped(self, ids, c=None, h=None):
        """Returns the outputs of `step` after each id."""
        c = np.zeros([1, UNITS], np.float32) if c is None else c
        h = np.zeros([1, DIM], np.float32) if h is None else h
        outs = []
        for word_id in ids:
            outs.append(self.step(token=np.array([word_id], np.int32), c=c, h=h))
            c, h = outs[-1]["new_c"], outs[-1]["new_h"]
        return outs


# The others share their writers with these.
QUICK = ("int8-rows",)


@pytest.fixture(
    scope="module",
    params=[pytest.param(k, marks=() if k in QUICK else pytest.mark.slow) for k in KINDS],
)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def file(kind):
    return File(kind)


@pytest.mark.slow
def test_logits_are_those_of_the_equations(file, kind):
    expected = export_fakes.NumpyCifg(stored(kind)).logits(IDS)
    got = np.stack([file.logits(h=out["new_h"])["logits"][0] for out in file.stepped(IDS)])
    relative_error = np.sqrt(np.square(got - expected).mean()) / expected.std()
    assert relative_error < LOGIT_TOLERANCE.get(kind, QUANTIZED_TOLERANCE)


@pytest.mark.slow
def test_best_words_and_probabilities_follow_from_the_logits(file):
    for out in file.stepped(IDS):
        logits = file.logits(h=out["new_h"])["logits"][0].astype(np.float64)
        probabilities = np.exp(logits) / np.exp(logits).sum()
        best = NUM_SPECIAL + np.argsort(-logits[NUM_SPECIAL:], kind="stable")[:TOP_K]
        np.testing.assert_array_equal(out["ids"][0], best)
        np.testing.assert_allclose(out["probabilities"][0], probabilities[best], rtol=1e-4)


@pytest.mark.slow
def test_predict_is_a_chain_of_steps(file):
    last, whole = file.stepped(IDS)[-1], file.predict(tokens=IDS[np.newaxis])
    for name in ("ids", "probabilities", "new_c", "new_h"):
        np.testing.assert_array_equal(whole[name], last[name])


@pytest.mark.slow
def test_special_ids_are_never_returned(file):
    # All weight on the special rows: h along each of their vectors.
    table = WEIGHTS.embedding
    for special in range(NUM_SPECIAL):
        h = 5.0 * table[special : special + 1]
        c = np.zeros([1, UNITS], np.float32)
        logits = file.logits(h=h)["logits"][0]
        assert logits.argmax() == special
        out = file.step(token=np.array([PAD], np.int32), c=c, h=h)  # reads nothing, only ranks
        assert (out["ids"] >= NUM_SPECIAL).all()


@pytest.mark.slow
def test_padding_leaves_the_state_alone(file):
    plain = file.predict(tokens=IDS[np.newaxis])
    padded = np.concatenate([[PAD, PAD], IDS[:4], [PAD], IDS[4:], [PAD]])[np.newaxis]
    out = file.predict(tokens=padded.astype(np.int32))
    for name in ("ids", "new_c", "new_h"):
        np.testing.assert_array_equal(out[name], plain[name])


@pytest.mark.slow
@pytest.mark.parametrize("bad", [-1, V, V + 1000, 2**31 - 1, -(2**31)])
def test_an_id_out_of_range_is_read_as_oov(file, bad):
    def reading(word_id):
        return file.predict(tokens=np.array([[BOS, word_id, 6]], np.int32))["new_h"]

    np.testing.assert_array_equal(reading(bad), reading(OOV))
    assert not np.array_equal(reading(bad), reading(6))


@pytest.mark.slow
def test_a_batch_is_rejected_and_the_file_goes_on(file):
    with pytest.raises(RuntimeError):
        file.predict(tokens=np.array([[BOS, 5], [BOS, 6]], np.int32))
    assert file.predict(tokens=IDS[np.newaxis])["ids"].shape == (1, TOP_K)


@pytest.mark.slow
def test_exporting_again_gives_the_same_bytes(file, kind):
    assert written(kind) == file.data


@pytest.mark.slow
def test_file_keeps_its_promises(file, kind):
    names = list(signatures.INFERENCE_SIGNATURES)
    names += signatures.TRAINING_SIGNATURES if kind == "trainable" else []
    report = inspection.verify(file.data, max_bytes=None, signatures=names, table_shape=(V, DIM))
    assert all(not name.startswith("custom:") for name in report.operators)
    assert len({buffer.digest for buffer in report.buffers}) == len(report.buffers)


@pytest.mark.slow
@pytest.mark.parametrize("top_k", [1, 7])
@pytest.mark.parametrize("kind", ["int8", "int8-rows"])
def test_top_k_is_as_asked(kind, top_k):
    interpreter = tf.lite.Interpreter(model_content=written(kind, top_k=top_k))
    out = interpreter.get_signature_runner("predict")(tokens=IDS[np.newaxis])
    assert out["ids"].shape == out["probabilities"].shape == (1, top_k)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "max_bytes"),
    [
        ("int8", 1_450_000),
        ("int8-rows", 1_450_000),
        ("trainable", 1_500_000),
    ],
)
def test_size_at_ten_thousand_words(kind, max_bytes):
    full = build_model("cifg", vocabulary_size=10_000, seed=1)
    random = np.random.default_rng(0)
    weights = CifgWeights.from_model(full)
    # Biases of a fresh model are constant and would be stored once for all gates.
    weights = dataclasses.replace(
        weights, biases=tuple(random.normal(size=670).astype(np.float32) for _ in range(3))
    )
    names = list(signatures.INFERENCE_SIGNATURES)
    report = inspection.verify(
        written(kind, weights), max_bytes=max_bytes, signatures=names, table_shape=(10_000, 96)
    )
    assert report.buffers[0].num_bytes == 960_000
    assert sum(buffer.num_bytes for buffer in report.buffers) < 960_000 + 475_000


def test_another_model_is_rejected():
    other = build_model("gru", vocabulary_size=20, seed=1, units=4, embedding_size=4)
    with pytest.raises(ExportError, match=r"`model\.type` must be 'cifg'"):
        CifgWeights.from_model(other)


@pytest.mark.slow
def test_weights_that_are_not_finite_are_rejected():
    broken = export_fakes.model()
    broken.projection.assign(np.full(broken.projection.shape, np.nan))
    with pytest.raises(ExportError, match="`projection` has NaN"):
        CifgWeights.from_model(broken)


@pytest.mark.parametrize("kind", ["int8-rows", pytest.param("trainable", marks=pytest.mark.slow)])
def test_edited_graphs_pass_the_verifier_of_the_tfl_dialect(kind):
    """TensorFlow's own importer checks types and shapes of every operator."""
    from tensorflow.lite.python import convert

    assert inspection.inspect(convert.mlir_sparsify(written(kind))).operators
