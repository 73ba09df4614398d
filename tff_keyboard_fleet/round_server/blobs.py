"""Files named by their SHA-256 (weights, plans, graph). Released files can be fetched."""

import pathlib
import threading

from tff_keyboard.storage import files
from tff_keyboard_fleet.wire import messages, model_patch, weights

_FROM = ".from."  # between the names of two models, in the name of their delta


class Blobs:
    """A folder of such files, with the set of files that devices may fetch."""

    def __init__(self, folder: pathlib.Path):
        self._folder = folder
        self._shown: set[str] = set()
        self._lock = threading.Lock()  # so that a delta is computed once
        files.make_directory(folder, mode=0o700, is_part=True)

    def keep(self, data: bytes) -> str:
        """Writes a file to disk and returns its name. It cannot be fetched yet."""
        name = weights.sha256(data)
        path = self._folder / name
        if not path.exists():
            files.write_atomically(path, [data])
        return name

    def show(self, name: str) -> None:
        """Allows fetching a file, if it exists. A second call changes nothing."""
        if not (self._folder / name).exists():
            return
        self._shown = self._shown | {name}  # a new set: other threads read the old one

    @property
    def is_ready(self) -> bool:
        """Whether any file can be fetched. After a restart the server shows no file at first."""
        return bool(self._shown)

    def path(self, name: str) -> pathlib.Path | None:
        """Returns the path of a file that may be fetched, or None."""
        return self._folder / name if name in self._shown else None

    def delta(self, old: str, new: str) -> pathlib.Path | None:
        """Returns the file with the delta from one model to another (`model_patch`).

        It is computed once. Returns None if one of the models cannot be fetched any more, or if
        they are not two models of the same size.
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
                files.write_atomically(path, [model_patch.make(*parts)])
        return path

    def keep_only(self, names: set[str]) -> None:
        """Removes all other files, except those whose names are not of this class."""
        self._shown = self._shown & names
        with self._lock:  # another thread may be writing a delta
            for path in self._folder.iterdir():
                new, mark, old = path.name.partition(_FROM)
                is_ours = messages.is_sha256(new) and (not mark or messages.is_sha256(old))
                if is_ours and new not in names:
                    path.unlink(missing_ok=True)
