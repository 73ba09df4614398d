"""Calls libcifg (`libcifg/`) from Python, for tests and comparisons."""

import ctypes
import pathlib
import shutil
import subprocess
from collections.abc import Sequence

import numpy as np

from tflite_export.runtime.libcifg import FLOATS, Libcifg

SOURCE = pathlib.Path(__file__).parents[3] / "libcifg"


class _Suggestion(ctypes.Structure):
    """The struct `cifg_suggestion`."""

    _fields_ = [("word", ctypes.c_char_p), ("probability", ctypes.c_double)]


def make(target: str, out: pathlib.Path, *options: str) -> pathlib.Path:
    """Builds a target of `build.mk` into a folder, and returns its path."""
    command = ["make", "-s", "-f", str(SOURCE / "build.mk"), f"OUT={out}", *options]
    build = subprocess.run(
        [*command, str(out / target)], capture_output=True, text=True, check=False
    )
    if build.returncode:
        raise RuntimeError(build.stderr)
    return out / target


def compiler() -> str | None:
    """Returns the C++ compiler, if `make` and one are installed."""
    return shutil.which("g++") if shutil.which("make") else None


class NativeKeyboard(Libcifg):
    """An open export, with all functions of a keyboard."""

    def strip_for(self, text: str, k: int = 3) -> tuple[str, list[tuple[str, float]]]:
        """Returns the prefix and the suggestions."""
        buffer, prefix = (_Suggestion * k)(), ctypes.c_char_p()
        typed = text.encode("utf-8", "replace")
        count = self._checked("strip", typed, k, buffer, ctypes.byref(prefix))
        return (prefix.value or b"").decode(), _pairs(buffer[:count])

    def suggest(
        self, context: Sequence[str], prefix: str = "", k: int = 3
    ) -> list[tuple[str, float]]:
        """See `Predictor.suggest`."""
        buffer = (_Suggestion * k)()
        words = "\n".join(context).encode()
        return _pairs(buffer[: self._checked("predict", words, prefix.encode(), k, buffer)])

    def logits(self, h: np.ndarray) -> np.ndarray:
        """Returns the logits [V]."""
        out = np.empty(self.sizes.vocabulary, np.float32)
        self._checked("logits", h.ctypes.data_as(FLOATS), out.ctypes.data_as(FLOATS))
        return out

    def learn(self, words: Sequence[str | None], exempt_words: Sequence[str] = ()) -> None:
        """See `HybridPredictor.learn`."""
        text = "\n".join(word or "" for word in words)
        self._checked("learn", text.encode(), "\n".join(exempt_words).encode())

    def forget(self, word: str | None = None) -> None:
        """Forgets a word, or all words."""
        self._checked("forget", word.encode() if word is not None else None)

    def cache(self) -> bytes:
        """Returns the file of the cache."""
        return self._call("cache")

    def set_cache(self, data: bytes) -> None:
        """Replaces the cache by the content of a file."""
        self._checked("set_cache", data, ctypes.c_size_t(len(data)))


def _pairs(suggestions) -> list[tuple[str, float]]:
    return [(one.word.decode(), one.probability) for one in suggestions]
