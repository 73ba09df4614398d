"""libcifg (`tflite_export/native/`) from Python, for tests and comparisons."""

import ctypes
import pathlib
import shutil
import subprocess
import unicodedata
from collections.abc import Sequence

import numpy as np

SOURCE = pathlib.Path(__file__).parents[2] / "tflite_export" / "native"
FLOATS = ctypes.POINTER(ctypes.c_float)
_NFKC = ctypes.CFUNCTYPE(
    ctypes.c_int64,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_void_p,
    ctypes.c_size_t,
)


class _Sizes(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_int32)
        for name in ("vocabulary", "dim", "units", "is_trainable", "is_hybrid")
    ]


class _Suggestion(ctypes.Structure):
    _fields_ = [("word", ctypes.c_char_p), ("probability", ctypes.c_double)]


def make(target: str, out: pathlib.Path, *options: str) -> pathlib.Path:
    """Builds a target of `build.mk` into a folder."""
    command = ["make", "-s", "-f", str(SOURCE / "build.mk"), f"OUT={out}", *options]
    done = subprocess.run(
        [*command, str(out / target)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return out / target


def compiler() -> str | None:
    """The C++ compiler, where `make` and one are installed."""
    return shutil.which("g++") if shutil.which("make") else None


@_NFKC
def _nfkc(user, text, size, out, capacity):
    done = unicodedata.normalize("NFKC", ctypes.string_at(text, size).decode()).encode()
    if len(done) <= capacity:
        ctypes.memmove(out, done, len(done))
    return len(done)


class NativeKeyboard:
    """An open export.

    Raises:
      ValueError: Wherever the library says an error.
    """

    def __init__(self, library: pathlib.Path, model: pathlib.Path | str):
        self._library = ctypes.CDLL(str(library))
        self._library.cifg_open.restype = ctypes.c_void_p
        self._library.cifg_get_sizes.restype = _Sizes
        self._library.cifg_weights.restype = ctypes.c_int64
        for name in ("error", "tokens", "word_of", "cache"):
            getattr(self._library, f"cifg_{name}").restype = ctypes.c_char_p
        error = ctypes.create_string_buffer(300)
        found = self._library.cifg_open(str(model).encode(), error, 300)
        if not found:
            raise ValueError(error.value.decode())
        self._keyboard = ctypes.c_void_p(found)
        self.sizes = self._call("get_sizes")
        self._call("set_nfkc", _nfkc, None)

    def close(self) -> None:
        """Frees it."""
        self._call("close")

    def _call(self, name: str, *arguments):
        return getattr(self._library, f"cifg_{name}")(self._keyboard, *arguments)

    def _checked(self, name: str, *arguments) -> int:
        status = self._call(name, *arguments)
        if status < 0:
            raise ValueError(self._call("error").decode())
        return status

    def strip_for(self, text: str, k: int = 3) -> tuple[str, list[tuple[str, float]]]:
        """Prefix and suggestions."""
        found, prefix = (_Suggestion * k)(), ctypes.c_char_p()
        typed = text.encode("utf-8", "replace")
        count = self._checked("strip", typed, k, found, ctypes.byref(prefix))
        return (prefix.value or b"").decode(), _pairs(found[:count])

    def suggest(
        self, context: Sequence[str], prefix: str = "", k: int = 3
    ) -> list[tuple[str, float]]:
        """As `Predictor.suggest`."""
        found = (_Suggestion * k)()
        words = "\n".join(context).encode()
        return _pairs(found[: self._checked("predict", words, prefix.encode(), k, found)])

    def tokens(self, text: str) -> list[str]:
        """Words of a text; a lone surrogate counts as `?`."""
        found = self._call("tokens", text.encode("utf-8", "replace")).decode()
        return found.split("\n") if found else []

    def id_of(self, word: str) -> int:
        """Row of the table."""
        return self._call("id_of", word.encode())

    def step(self, token: int, c: np.ndarray, h: np.ndarray) -> None:
        """Changes the state."""
        self._checked("step", token, c.ctypes.data_as(FLOATS), h.ctypes.data_as(FLOATS))

    def logits(self, h: np.ndarray) -> np.ndarray:
        """[V]."""
        out = np.empty(self.sizes.vocabulary, np.float32)
        self._checked("logits", h.ctypes.data_as(FLOATS), out.ctypes.data_as(FLOATS))
        return out

    def train(self, tokens: Sequence[int], learning_rate: float) -> float:
        """The loss before the step."""
        ids, loss = (ctypes.c_int32 * len(tokens))(*tokens), ctypes.c_float()
        size, rate = ctypes.c_size_t(len(tokens)), ctypes.c_float(learning_rate)
        self._checked("train", ids, size, rate, ctypes.byref(loss))
        return loss.value

    def weights(self, name: str) -> np.ndarray:
        """A weight, flat."""
        values = np.empty(self._checked("weights", name.encode(), None, 0), np.float32)
        size = ctypes.c_size_t(len(values))
        self._checked("weights", name.encode(), values.ctypes.data_as(FLOATS), size)
        return values

    def set_weights(self, name: str, values: np.ndarray) -> None:
        """The inverse."""
        flat = np.ascontiguousarray(values, np.float32).ravel()
        size = ctypes.c_size_t(len(flat))
        self._checked("set_weights", name.encode(), flat.ctypes.data_as(FLOATS), size)

    def learn(self, words: Sequence[str | None], kept: Sequence[str] = ()) -> None:
        """As `HybridPredictor.learn`."""
        text = "\n".join(word or "" for word in words)
        self._checked("learn", text.encode(), "\n".join(kept).encode())

    def forget(self, word: str | None = None) -> None:
        """A word, or all."""
        self._checked("forget", word.encode() if word is not None else None)

    def cache(self) -> bytes:
        """The file of the cache."""
        return self._call("cache")

    def set_cache(self, data: bytes) -> None:
        """Takes a file's content."""
        self._checked("set_cache", data, ctypes.c_size_t(len(data)))


def _pairs(found) -> list[tuple[str, float]]:
    return [(one.word.decode(), one.probability) for one in found]
