"""Files named by their SHA-256 (weights, plans, graph, vocabulary); the released ones are shown."""

import pathlib
import threading

from tff_keyboard.storage import files
from tff_keyboard.wire import model_delta, weights

_FROM = ".from."  # between the names of two models, in the name of their delta


class Blobs:
    """A folder of such files, and which of them anybody may fetch."""

    def __init__(self, folder: pathlib.Path):
        self._folder = folder
        self._shown: set[str] = set()
        self._lock = threading.Lock()  # a delta is made once
        files.make_directory(folder, mode=0o700)

    def keep(self, data: bytes) -> str:
        """Writes a file to disk, for nobody to see yet; its name."""
        name = weights.sha256(data)
        path = self._folder / name
        if not path.exists():
            files.write_atomically(path, [data])
        return name

    def show(self, name: str) -> None:
        """Lets anybody fetch a file, if it is there; the same again changes nothing."""
        if not (self._folder / name).exists():
            return
        self._shown = self._shown | {name}  # a new set: other threads read the old one

    @property
    def is_ready(self) -> bool:
        """Whether anything may be fetched; a server that starts again shows nothing at first."""
        return bool(self._shown)

    def path(self, name: str) -> pathlib.Path | None:
        """A file that may be fetched; None: there is none of this name."""
        return self._folder / name if name in self._shown else None

    def delta(self, old: str, new: str) -> pathlib.Path | None:
        """What makes a model of another (`model_delta`), both of which may be fetched; made once.

        None: one of them is not there any more, or they are no two models of one size.
        """
        before, after = self.path(old), self.path(new)
        if before is None or after is None or before == after:
            return None
        path = self._folder / f"{new}{_FROM}{old}"
        with self._lock:
            if not path.exists():
                parts = [files.read_bytes(each) for each in (before, after)]
                if len(parts[0]) != len(parts[1]) or len(parts[0]) % weights.BYTES_PER_NUMBER:
                    return None
                files.write_atomically(path, [model_delta.make(*parts)])
        return path

    def keep_only(self, names: set[str]) -> None:
        """Removes all other files."""
        self._shown = self._shown & names
        with self._lock:  # a delta may be on its way
            for path in self._folder.iterdir():
                if path.name.partition(_FROM)[0] not in names:
                    path.unlink(missing_ok=True)
