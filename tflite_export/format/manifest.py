"""The files of an exported model: how they are found, and known to belong together.

    keyboard.tflite       the model
    keyboard.vocabulary   its words (`vocabulary_file`)
    keyboard.json         the manifest (`manifest_content`)
    keyboard.card.md      the model card (`model_card`), for people
    keyboard.ngram        with `--ngram`: the n-gram of the hybrid (`ngram_file`)
    keyboard.tail         with `--tail`: the lexicon (`tail_file`)
    keyboard.sig          with `--sign-key`: a signature of the manifest (`signing`)

Or one file: all others packed into the model (`associated_files`).
"""

import dataclasses
import hashlib
import pathlib
import stat

from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.storage import file_sets
from tff_keyboard.storage.errors import ExportError
from tflite_export.format import associated_files, vocabulary_file
from tflite_export.format.manifest_content import MOST_MODEL_BYTES, Manifest, parse

# Ending of each file beside the model, by the name it has where it is packed.
SUFFIXES = {
    associated_files.VOCABULARY: ".vocabulary",
    associated_files.MANIFEST: ".json",
    associated_files.NGRAM: ".ngram",
    associated_files.TAIL: ".tail",
    associated_files.CARD: ".card.md",
    associated_files.SIGNATURE: ".sig",
}

# What a person may have put beside a model must not fill the memory, or never end.
_MOST_BYTES = {
    ".tflite": MOST_MODEL_BYTES,
    ".ngram": 2**28,
    ".vocabulary": 2**24,
    ".tail": 2**24,
    ".json": 2**22,
}

_FILE_IDENTIFIER = b"TFL3"  # bytes 4 to 8 of every model


@dataclasses.dataclass(frozen=True)
class ExportPaths:
    """The files of one exported model, named after it."""

    model: pathlib.Path

    def part(self, name: str) -> pathlib.Path:
        """A file beside the model, by its name in `SUFFIXES`."""
        return self.model.with_suffix(SUFFIXES[name])

    @property
    def vocabulary(self) -> pathlib.Path:
        """Beside the model."""
        return self.part(associated_files.VOCABULARY)

    @property
    def manifest(self) -> pathlib.Path:
        """Beside the model."""
        return self.part(associated_files.MANIFEST)

    @property
    def ngram(self) -> pathlib.Path:
        return self.part(associated_files.NGRAM)

    @property
    def names(self) -> list[str]:
        """Names of all files that an export may have."""
        return [self.model.name, *(self.part(name).name for name in SUFFIXES)]


def load_checked(model: pathlib.Path) -> tuple[Manifest, Vocabulary]:
    """Manifest and vocabulary of a model, once all parts are known to belong together.

    Needs no runtime; the model is not opened. Raises `ExportError` if a part is missing, damaged,
    or from another export.
    """
    check_not_interrupted(model)
    paths = ExportPaths(model)
    model_data = _read(paths.model)
    if model_data[4:8] != _FILE_IDENTIFIER:
        raise ExportError(f"{model}: not a TFLite model. Export it again.")
    packed = {} if paths.manifest.is_file() else associated_files.extract(model_data, paths.model)
    if associated_files.MANIFEST in packed:
        manifest = parse(packed[associated_files.MANIFEST], paths.model)
        vocabulary_data = packed.get(associated_files.VOCABULARY, b"")
        vocabulary_name: pathlib.Path = paths.model
    elif paths.manifest.is_file():
        manifest = parse(_read(paths.manifest), paths.manifest)
        vocabulary_data = _read(paths.vocabulary)
        vocabulary_name = paths.vocabulary
    else:
        raise ExportError(
            f"{paths.manifest}: the manifest of the model is missing. Keep the files of an "
            "export together, or export again."
        )
    # A packed file goes on behind the model itself.
    _check(model_data[: manifest.model.bytes], manifest.model.sha256, paths.model)
    _check(vocabulary_data, manifest.vocabulary.sha256, vocabulary_name)
    return manifest, vocabulary_file.decode(vocabulary_data, str(vocabulary_name))


def check_not_interrupted(model: pathlib.Path) -> None:
    """Changes nothing: what lies beside a model may have come from somebody else.

    Raises `ExportError` if an export to this name goes on, or was killed in the middle of it.
    """
    if file_sets.is_interrupted(model):
        raise ExportError(
            f"{file_sets.ready_directory(model)}: an export was interrupted here, old files may be "
            f"mixed with new ones. Run `export` to {model.name} again, or ask for a whole copy."
        )


def load_described(model: pathlib.Path, name: str, digest: str) -> bytes:
    """A part that the manifest describes, by its name in `SUFFIXES` and SHA-256.

    Raises `ExportError` if it is missing, damaged, or from another export.
    """
    data, path = load_part(model, name), ExportPaths(model).part(name)
    if data is None:
        raise ExportError(f"{path}: cannot be read. Keep the files of one export together.")
    _check(data, digest, path)
    return data


def load_part(model: pathlib.Path, name: str) -> bytes | None:
    """A file beside a model, or packed into it; None if there is none.

    Raises `ExportError` if it cannot be read.
    """
    paths = ExportPaths(model)
    if not paths.manifest.is_file():
        return associated_files.extract(_read(paths.model), paths.model).get(name)
    path = paths.part(name)
    return _read(path) if path.exists() else None


def sha256(data: bytes) -> str:
    """Hex digits."""
    return hashlib.sha256(data).hexdigest()


def _read(path: pathlib.Path) -> bytes:
    """A regular file of a size that an export may have."""
    most = _MOST_BYTES.get(path.suffix, 2**22)
    try:
        found = path.stat()  # before it is opened: a pipe would wait for ever
        if not stat.S_ISREG(found.st_mode) or found.st_size > most:
            raise ExportError(
                f"{path}: is no file, or larger than the {most:,} bytes that an export may have."
            )
        with path.open("rb") as file:
            return file.read(most + 1)
    except OSError as error:
        raise ExportError(f"{path}: cannot be read ({error.strerror}).") from None


def _check(data: bytes, digest: str, path: pathlib.Path) -> None:
    if sha256(data) != digest:
        raise ExportError(
            f"{path}: not the file its manifest describes: damaged, or from another export. "
            "Keep the files of one export together, or export again."
        )
