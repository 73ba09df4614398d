"""An exported network in NumPy, float64, by the rules of docs/phone/format.md alone."""

import pathlib
from typing import Any

import numpy as np

from tff_keyboard.data.vocabulary import NUM_SPECIAL, OOV, PAD
from tflite_export.runtime.keyboard_predictor import KeyboardPredictor

_FULLY_CONNECTED = 9
_TOP = 3


class NumpyNetwork:
    """The signatures `step`, `predict` and `logits` of a file, computed in NumPy.

    Args:
      path: An export of int8-rows or --trainable.
    """

    def __init__(self, path: pathlib.Path):
        self._is_rounded, (kernel, recurrent), self._bias, self._projection, table = _read(path)
        self._kernel, self._recurrent = kernel, recurrent
        self._values, self._row_scales = table
        self._rows = self._values * self._row_scales[:, np.newaxis]

    def step(self, token: np.ndarray, c: np.ndarray, h: np.ndarray) -> dict[str, np.ndarray]:
        """See `tflite_export/format/signatures.py`."""
        (token,) = token
        if token == PAD:
            return self._suggestions(c, h)
        x = self._rows[token if 0 <= token < len(self._rows) else OOV]
        z = self._times(x, self._kernel) + self._times(h[0], self._recurrent) + self._bias
        z_i, z_g, z_o = np.split(z, 3)
        c = c[0] + (np.tanh(z_g) - c[0]) / (1 + np.exp(-z_i))
        h = self._times(np.tanh(c) / (1 + np.exp(-z_o)), self._projection)
        return self._suggestions(c[np.newaxis], h[np.newaxis])

    def predict(self, tokens: np.ndarray) -> dict[str, np.ndarray]:
        """Reads a whole message."""
        c, h = np.zeros([1, len(self._bias) // 3]), np.zeros([1, self._rows.shape[1]])
        for token in tokens[0]:
            out = self.step(np.array([token]), c, h)
            c, h = out["new_c"], out["new_h"]
        return out

    def logits(self, h: np.ndarray) -> dict[str, np.ndarray]:
        """Returns the scores of all rows."""
        scores = self._times(h[0], (self._values.T, 1.0)) * self._row_scales
        return {"logits": scores[np.newaxis]}

    def _suggestions(self, c: np.ndarray, h: np.ndarray) -> dict[str, np.ndarray]:
        scores = self.logits(h)["logits"][0]
        shares = np.exp(scores - scores.max())
        shares /= shares.sum()
        ids = NUM_SPECIAL + np.argsort(-shares[NUM_SPECIAL:], kind="stable")[:_TOP]
        return {"new_c": c, "new_h": h, "ids": ids[np.newaxis], "probabilities": shares[[ids]]}

    def _times(self, x: np.ndarray, matrix: tuple[np.ndarray, float | np.ndarray]) -> np.ndarray:
        """Returns x @ matrix. If the file is quantised, x is rounded as the interpreter does."""
        values, scale = matrix
        if not self._is_rounded:
            return x @ values * scale
        low, high = min(x.min(), 0), max(x.max(), 0)
        step = (high - low) / 255 or 1.0
        zero = np.clip(np.round(-128 - low / step), -128, 127)
        nearest = np.trunc(x / step + np.copysign(0.5, x))  # halves away from zero
        return (np.clip(nearest + zero, -128, 127) - zero) @ values * (step * scale)


def on_numpy(keyboard):
    """Returns the keyboard with NumPy instead of its interpreter."""
    network: KeyboardPredictor = keyboard.network
    computed = NumpyNetwork(network.path)
    for name in ("step", "predict", "logits"):
        setattr(network, f"_{name}", getattr(computed, name))
    return keyboard


def _read(path: pathlib.Path) -> tuple:
    """Reads the weights of a file.

    Returns:
      Whether inputs are rounded; kernels, bias and projection; the table's values and row scales.
    """
    from tensorflow.lite.python import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(path.read_bytes(), 0)
    signatures = {each.signatureKey.decode(): each for each in model.signatureDefs}
    if "set_weights" in signatures:
        arrays = KeyboardPredictor(path).signature("weights")()
        w = {name: value.astype(np.float64) for name, value in arrays.items()}
        pairs = (w["kernel"], 1.0), (w["recurrent_kernel"], 1.0)
        table = w["embedding"], np.ones(len(w["embedding"]))
        return False, pairs, w["bias"], (w["projection"], 1.0), table
    graph = model.subgraphs[signatures["step"].subgraphIndex]
    codes = [max(c.builtinCode, c.deprecatedBuiltinCode) for c in model.operatorCodes]
    nodes = [n for n in graph.operators if codes[n.opcodeIndex] == _FULLY_CONNECTED]

    def values(index: int, kind: type) -> np.ndarray:
        """Returns the values of a tensor, stored as `kind`, as float64."""
        tensor = graph.tensors[index]
        data: Any = np.asarray(model.buffers[tensor.buffer].data, np.uint8)
        return data.view(kind).reshape(tensor.shape).astype(np.float64)

    def scaled(node) -> tuple[np.ndarray, np.ndarray]:
        """Returns a matrix [inputs, outputs] and a scale for each output."""
        matrix = values(node.inputs[1], np.int8).T
        (scale,) = graph.tensors[node.inputs[1]].quantization.scale
        return matrix, np.full(matrix.shape[1], np.float64(scale))

    *gates, projection, scores = nodes
    kernels = [_beside(list(map(scaled, gates[start::2]))) for start in (0, 1)]
    bias = np.concatenate([values(node.inputs[2], np.float32) for node in gates[::2]])
    after = graph.operators[graph.operators.index(scores) + 1].inputs[0]
    row_scales = values(after, np.int8)[0] * graph.tensors[after].quantization.scale[0]
    return True, kernels, bias, scaled(projection), (scaled(scores)[0].T, row_scales)


def _beside(matrices: list) -> tuple[np.ndarray, np.ndarray]:
    return tuple(np.concatenate(parts, axis=-1) for parts in zip(*matrices, strict=True))
