"""Files named by their SHA-256 (weights, plans, graph, vocabulary); the released ones are shown."""

import pathlib

from tff_keyboard.storage import files
from tff_keyboard.wire import weights


class Blobs:
    """A folder of such files, and which of them anybody may fetch."""

    def __init__(self, folder: pathlib.Path):
        self._folder = folder
        self._shown: set[str] = set()
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

    def keep_only(self, names: set[str]) -> None:
        """Removes all other files."""
        self._shown = self._shown & names
        for path in self._folder.iterdir():
            if path.name not in names:
                path.unlink(missing_ok=True)
