"""Files named by their SHA-256 (weights, plans, graph, vocabulary); the released ones are shown."""

import pathlib
import threading

from tff_keyboard.storage import files
from tff_keyboard.storage.errors import DataError
from tff_keyboard.wire import model_delta, weights

_PLUS = "+"  # between the two names of a delta


class Blobs:
    """A folder of such files, and which of them anybody may fetch."""

    def __init__(self, folder: pathlib.Path):
        self._folder = folder
        self._shown: set[str] = set()
        self._making = threading.Lock()
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
        """What makes the second file of the first (`wire.model_delta`), made when it is first asked
        for; None: one of them may not be fetched, or the second is as short by itself."""
        if old == new or not {old, new} <= self._shown:
            return None
        path = self._folder / f"{old}{_PLUS}{new}"
        with self._making:
            if not path.exists():
                whole = files.read_bytes(self._folder / new)
                try:
                    made = model_delta.make(files.read_bytes(self._folder / old), whole)
                except DataError:  # a graph or a plan
                    made = whole
                files.write_atomically(path, [made if len(made) < len(whole) else b""])
        return path if path.stat().st_size else None

    def keep_only(self, names: set[str]) -> None:
        """Removes all other files, and deltas from or to them."""
        self._shown = self._shown & names
        for path in self._folder.iterdir():
            if not names.issuperset(path.name.split(_PLUS)):
                path.unlink(missing_ok=True)
