"""libcifg's C interface (`cifg.h`) from Python: open, read text, train, exchange weights."""

import ctypes
import pathlib
import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np

from tff_keyboard.storage.errors import ExportError
from tflite_export.format import associated_files, manifest_content

_PARTS = (
    associated_files.VOCABULARY,
    associated_files.MANIFEST,
    associated_files.NGRAM,
    associated_files.TAIL,
)

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


class _Bytes(ctypes.Structure):
    _fields_ = [("data", ctypes.c_char_p), ("size", ctypes.c_size_t)]


class _Files(ctypes.Structure):
    _fields_ = [(name, _Bytes) for name in ("model", "vocabulary", "manifest", "ngram", "tail")]


@_NFKC
def _nfkc(user: Any, text: Any, size: int, out: Any, capacity: int) -> int:
    done = unicodedata.normalize("NFKC", ctypes.string_at(text, size).decode()).encode()
    if len(done) <= capacity:
        ctypes.memmove(out, done, len(done))
    return len(done)


def _said(error: bytes) -> str:
    """Its text, which C may have cut within a letter."""
    return error.decode("utf-8", "replace")


class Libcifg:
    """An open export, packed or with its files beside it. Not thread-safe.

    Args:
      library: A `libcifg.so` of `make native`.
      model: The `.tflite` file.

    Attributes:
      sizes: `cifg_sizes` of the header.

    Raises:
      ExportError: The library is not one, or says an error, here or in any method.
    """

    def __init__(self, library: pathlib.Path, model: pathlib.Path | str):
        try:
            self._library = ctypes.CDLL(str(library))
            self._library.cifg_open.restype = ctypes.c_void_p
        except (OSError, AttributeError):
            raise ExportError(f"{library}: is no libcifg. Build it with `make native`.") from None
        self._library.cifg_open_files.restype = ctypes.c_void_p
        self._library.cifg_get_sizes.restype = _Sizes
        self._library.cifg_weights.restype = ctypes.c_int64
        for name in ("error", "tokens", "word_of", "cache"):
            getattr(self._library, f"cifg_{name}").restype = ctypes.c_char_p
        error = ctypes.create_string_buffer(300)
        path = pathlib.Path(model)
        try:
            data = path.read_bytes()
        except OSError as cannot:
            raise ExportError(f"{path}: cannot be read ({cannot.strerror}).") from None
        packed = associated_files.extract(data, path)
        if associated_files.MANIFEST in packed:
            size = manifest_content.parse(packed[associated_files.MANIFEST], path).model.bytes
            parts = [data[:size], *(packed.get(name, b"") for name in _PARTS)]
            given = _Files(*(_Bytes(part, len(part)) for part in parts))
            found = self._library.cifg_open_files(ctypes.byref(given), error, 300)
        else:
            found = self._library.cifg_open(str(path).encode(), error, 300)
        if not found:
            raise ExportError(_said(error.value))
        self._keyboard = ctypes.c_void_p(found)
        self.sizes = self._call("get_sizes")
        self._call("set_nfkc", _nfkc, None)

    def close(self) -> None:
        """Frees it."""
        self._call("close")

    def tokens(self, text: str) -> list[str]:
        """Words of a text; a lone surrogate counts as `?`."""
        found = self._call("tokens", text.encode("utf-8", "replace")).decode()
        return found.split("\n") if found else []

    def id_of(self, word: str) -> int:
        """Row of the table."""
        return int(self._call("id_of", word.encode()))

    def train(self, tokens: Sequence[int], learning_rate: float) -> float:
        """The loss before the step."""
        ids, loss = (ctypes.c_int32 * len(tokens))(*tokens), ctypes.c_float()
        size, rate = ctypes.c_size_t(len(tokens)), ctypes.c_float(learning_rate)
        self._checked("train", ids, size, rate, ctypes.byref(loss))
        return loss.value

    def size_of(self, name: str) -> int:
        """Numbers of a weight."""
        return self._checked("weights", name.encode(), None, ctypes.c_size_t(0))

    def weights(self, name: str) -> np.ndarray:
        """A weight, flat."""
        values = np.empty(self.size_of(name), np.float32)
        size = ctypes.c_size_t(len(values))
        self._checked("weights", name.encode(), values.ctypes.data_as(FLOATS), size)
        return values

    def set_weights(self, name: str, values: np.ndarray) -> None:
        """The inverse."""
        flat = np.ascontiguousarray(values, np.float32).ravel()
        size = ctypes.c_size_t(len(flat))
        self._checked("set_weights", name.encode(), flat.ctypes.data_as(FLOATS), size)

    def _call(self, name: str, *arguments: Any) -> Any:
        return getattr(self._library, f"cifg_{name}")(self._keyboard, *arguments)

    def _checked(self, name: str, *arguments: Any) -> int:
        status: int = self._call(name, *arguments)
        if status < 0:
            raise ExportError(_said(self._call("error")))
        return status
