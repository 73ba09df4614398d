"""The files of an exported model, and the check that they belong together.

    keyboard.tflite       the model
    keyboard.vocabulary   its words (`vocabulary_file`)
    keyboard.json         the manifest (`manifest_content`)
    keyboard.card.md      the model card (`model_card`), to be read by people
    keyboard.ngram        with `--ngram`: the n-gram of the hybrid (`ngram_file`)
    keyboard.tail         with `--tail`: the lexicon (`tail_file`)
    keyboard.sig          with `--sign-key`: a signature of the manifest (`signing`)

Alternatively one file: all others are packed into the model (`associated_files`).
"""

import dataclasses
import hashlib
import pathlib
import stat

from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.storage.errors import ExportError, UsageError
from tflite_export.format import associated_files, vocabulary_file
from tflite_export.format.manifest_content import MAX_MODEL_BYTES, Manifest, parse

# Name of a packed file -> suffix of the same file next to the model.
SUFFIXES = {
    associated_files.VOCABULARY: ".vocabulary",
    associated_files.MANIFEST: ".json",
    associated_files.NGRAM: ".ngram",
    associated_files.TAIL: ".tail",
    associated_files.CARD: ".card.md",
    associated_files.SIGNATURE: ".sig",
}

# Limits, because a file next to a model may come from another person: it must not fill the memory.
_MAX_BYTES = {
    ".tflite": MAX_MODEL_BYTES,
    ".ngram": 2**28,
    ".vocabulary": 2**24,
    ".tail": 2**24,
    ".json": 2**22,
}

_FILE_IDENTIFIER = b"TFL3"  # bytes 4 to 8 of every model


@dataclasses.dataclass(frozen=True)
class ExportPaths:
    """Paths of the files of one exported model. Their names follow from the model's name."""

    model: pathlib.Path

    def part(self, name: str) -> pathlib.Path:
        """Returns the path of a file next to the model, by its name in `SUFFIXES`."""
        return self.model.with_suffix(SUFFIXES[name])

    @property
    def vocabulary(self) -> pathlib.Path:
        return self.part(associated_files.VOCABULARY)

    @property
    def manifest(self) -> pathlib.Path:
        return self.part(associated_files.MANIFEST)

    @property
    def ngram(self) -> pathlib.Path:
        return self.part(associated_files.NGRAM)

    @property
    def names(self) -> list[str]:
        """Names of all files that an export can have."""
        return [self.model.name, *(self.part(name).name for name in SUFFIXES)]


def load_checked(model: pathlib.Path) -> tuple[Manifest, Vocabulary]:
    """Returns manifest and vocabulary of a model after checking that all parts belong together.

    Needs no runtime: the model is not opened.

    Raises:
      ExportError: If a part is missing, damaged, or from another export.
    """
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
    # If files are packed into the model, they follow the model's own bytes.
    _check(model_data[: manifest.model.bytes], manifest.model.sha256, paths.model)
    _check(vocabulary_data, manifest.vocabulary.sha256, vocabulary_name)
    return manifest, vocabulary_file.decode(vocabulary_data, str(vocabulary_name))


def load_described(model: pathlib.Path, name: str, digest: str) -> bytes:
    """Returns the bytes of a part that the manifest describes, after comparing its hash.

    Args:
      model: Path of the model.
      name: Name of the part in `SUFFIXES`.
      digest: SHA-256 of the part, in hex.

    Raises:
      ExportError: If the part is missing, damaged, or from another export.
    """
    data, path = load_part(model, name), ExportPaths(model).part(name)
    if data is None:
        raise ExportError(f"{path}: cannot be read. Keep the files of one export together.")
    _check(data, digest, path)
    return data


def load_part(model: pathlib.Path, name: str) -> bytes | None:
    """Returns the bytes of a file next to a model or packed into it, or None if there is none.

    Raises:
      ExportError: If the file cannot be read.
    """
    paths = ExportPaths(model)
    if not paths.manifest.is_file():
        return associated_files.extract(_read(paths.model), paths.model).get(name)
    path = paths.part(name)
    return _read(path) if path.exists() else None


def check_out(out: pathlib.Path) -> None:
    """Checks that an export can have this name.

    Raises:
      ExportError: If `out` is a directory.
      UsageError: If `out` is not a name for a model file.
    """
    if out.suffix != ".tflite":
        raise UsageError(f"--out must end in .tflite, got '{out.name}'.")
    if out.is_dir():
        raise ExportError(f"{out} is a directory. Pass the name of a file.")


def sha256(data: bytes) -> str:
    """Returns the SHA-256 of `data` in hex."""
    return hashlib.sha256(data).hexdigest()


def _read(path: pathlib.Path) -> bytes:
    """Reads a regular file whose size is within the limits of an export."""
    max_bytes = _MAX_BYTES.get(path.suffix, 2**22)
    try:
        status = path.stat()  # before it is opened: opening a pipe would block
        if stat.S_ISDIR(status.st_mode):
            raise ExportError(
                f"{path}: is a folder. Pass the .tflite file that `tff-keyboard export` wrote."
            )
        if not stat.S_ISREG(status.st_mode) or status.st_size > max_bytes:
            raise ExportError(
                f"{path}: is not a file, or is larger than {max_bytes:,} bytes, the limit for "
                "exports."
            )
        with path.open("rb") as file:
            return file.read(max_bytes + 1)
    except OSError as error:
        raise ExportError(f"{path}: cannot be read ({error.strerror}).") from None


def _check(data: bytes, digest: str, path: pathlib.Path) -> None:
    if sha256(data) != digest:
        raise ExportError(
            f"{path}: does not match its manifest: it is damaged, or from another export. "
            "Keep the files of one export together, or export again."
        )
