"""Calls libcifg's C interface (`cifg.h`): open, read text, train, exchange weights."""

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


def built_library() -> pathlib.Path | None:
    """Returns the `libcifg.so` that `make native` built in this checkout, or None."""
    path = pathlib.Path(__file__).parents[2] / "build" / "native" / "libcifg.so"
    return path if path.is_file() else None


class _Sizes(ctypes.Structure):
    """The struct `cifg_sizes`."""

    _fields_ = [
        (name, ctypes.c_int32)
        for name in ("vocabulary", "dim", "units", "is_trainable", "is_hybrid")
    ]


class _Bytes(ctypes.Structure):
    """The struct `cifg_bytes`."""

    _fields_ = [("data", ctypes.c_char_p), ("size", ctypes.c_size_t)]


class _Files(ctypes.Structure):
    """The struct `cifg_files`."""

    _fields_ = [(name, _Bytes) for name in ("model", "vocabulary", "manifest", "ngram", "tail")]


@_NFKC
def _nfkc(user: Any, text: Any, size: int, out: Any, capacity: int) -> int:
    """Writes the NFKC form of a UTF-8 text to `out` if it fits, and returns its length in bytes."""
    normalised = unicodedata.normalize("NFKC", ctypes.string_at(text, size).decode()).encode()
    if len(normalised) <= capacity:
        ctypes.memmove(out, normalised, len(normalised))
    return len(normalised)


def _decode_error(error: bytes) -> str:
    """Decodes an error message, which C may have cut within a character."""
    return error.decode("utf-8", "replace")


class Libcifg:
    """An open export, packed or with its files next to it.

    Several threads may use it until `close`. The library lets their calls take turns.

    Args:
      library: A `libcifg.so` of `make native`.
      model: The `.tflite` file.

    Attributes:
      sizes: `cifg_sizes` of the header.

    Raises:
      ExportError: If `library` is not libcifg, or if it reports an error, here or in any method.
    """

    def __init__(self, library: pathlib.Path, model: pathlib.Path | str):
        try:
            self._library = ctypes.CDLL(str(library))
            self._library.cifg_open.restype = ctypes.c_void_p
        except (OSError, AttributeError):
            raise ExportError(
                f"{library}: is not a libcifg library. Build it with `make native`."
            ) from None
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
            file_parts = _Files(*(_Bytes(part, len(part)) for part in parts))
            keyboard = self._library.cifg_open_files(ctypes.byref(file_parts), error, 300)
        else:
            keyboard = self._library.cifg_open(str(path).encode(), error, 300)
        if not keyboard:
            raise ExportError(_decode_error(error.value))
        self._keyboard: ctypes.c_void_p | None = ctypes.c_void_p(keyboard)
        self.sizes = self._call("get_sizes")
        self._call("set_nfkc", _nfkc, None)

    def close(self) -> None:
        """Frees the keyboard. Later calls raise `ValueError`, except for another `close`."""
        if self._keyboard is not None:
            self._call("close")
            self._keyboard = None

    def tokens(self, text: str) -> list[str]:
        """Returns the words of a text. A lone surrogate counts as `?`."""
        words = self._call("tokens", text.encode("utf-8", "replace")).decode()
        return words.split("\n") if words else []

    def id_of(self, word: str) -> int:
        """Returns the row of the table for a word."""
        return int(self._call("id_of", word.encode()))

    def step(self, token: int, c: np.ndarray, h: np.ndarray) -> None:
        """Reads a token and changes the state: float32 arrays of `units` and `dim` numbers.

        Raises:
          ValueError: An array has another type or size.
        """
        sizes = (self.sizes.units, self.sizes.dim)
        for array, size in zip((c, h), sizes, strict=True):
            if array.dtype != np.float32 or array.size != size or not array.flags.c_contiguous:
                raise ValueError(
                    f"The state is two contiguous float32 arrays of {sizes[0]} and {sizes[1]} "
                    f"numbers, got {array.dtype} of {array.size}."
                )
        self._checked("step", token, c.ctypes.data_as(FLOATS), h.ctypes.data_as(FLOATS))

    def train(self, tokens: Sequence[int], learning_rate: float) -> float:
        """Makes one training step and returns the loss before it."""
        ids, loss = (ctypes.c_int32 * len(tokens))(*tokens), ctypes.c_float()
        size, rate = ctypes.c_size_t(len(tokens)), ctypes.c_float(learning_rate)
        self._checked("train", ids, size, rate, ctypes.byref(loss))
        return loss.value

    def size_of(self, name: str) -> int:
        """Returns the number of elements of a weight."""
        return self._checked("weights", name.encode(), None, ctypes.c_size_t(0))

    def weights(self, name: str) -> np.ndarray:
        """Returns a weight as a flat array."""
        values = np.empty(self.size_of(name), np.float32)
        size = ctypes.c_size_t(len(values))
        self._checked("weights", name.encode(), values.ctypes.data_as(FLOATS), size)
        return values

    def set_weights(self, name: str, values: np.ndarray) -> None:
        """Sets a weight from an array of any shape."""
        flat = np.ascontiguousarray(values, np.float32).ravel()
        size = ctypes.c_size_t(len(flat))
        self._checked("set_weights", name.encode(), flat.ctypes.data_as(FLOATS), size)

    def _call(self, name: str, *arguments: Any) -> Any:
        if self._keyboard is None:
            raise ValueError("The keyboard is closed.")
        return getattr(self._library, f"cifg_{name}")(self._keyboard, *arguments)

    def _checked(self, name: str, *arguments: Any) -> int:
        """Calls a function of the library. A negative result becomes an `ExportError`."""
        status: int = self._call(name, *arguments)
        if status < 0:
            raise ExportError(_decode_error(self._call("error")))
        return status
