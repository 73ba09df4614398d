"""What an exported model says of itself, and how its files are found and checked.

    keyboard.tflite       the model
    keyboard.vocabulary   its words (`vocabulary_file`)
    keyboard.json         the manifest
    keyboard.card.md      the model card (`model_card`), for people
    keyboard.ngram        with `--ngram`: the n-gram of the hybrid (`baselines/ngram_file.py`)
    keyboard.sig          with `--sign-key`: a signature of the manifest (`signing`)

Or one file: all others packed into the model (`associated_files`).
"""

import dataclasses
import hashlib
import json
import pathlib
import stat
from typing import Any

from tff_keyboard.data.vocabulary import BOS, EOS, OOV, PAD, Vocabulary
from tff_keyboard.storage import file_sets
from tff_keyboard.storage.errors import ExportError
from tflite_export import associated_files, vocabulary_file

FORMAT = "tff-keyboard export 1"
SPECIAL_IDS = {"pad": PAD, "bos": BOS, "eos": EOS, "oov": OOV}

PACKED_VOCABULARY = associated_files.VOCABULARY
PACKED_MANIFEST = associated_files.MANIFEST
PACKED_NGRAM = associated_files.NGRAM

# Ending of each file beside the model, by the name it has where it is packed.
SUFFIXES = {
    PACKED_VOCABULARY: ".vocabulary",
    PACKED_MANIFEST: ".json",
    PACKED_NGRAM: ".ngram",
    associated_files.CARD: ".card.md",
    associated_files.SIGNATURE: ".sig",
}

# What a person may have put beside a model must not fill the memory, or never end.
_MOST_BYTES = {".tflite": 2**30, ".ngram": 2**28, ".vocabulary": 2**24, ".json": 2**22}
_MOST_STATES = 100_000

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
        return self.part(PACKED_VOCABULARY)

    @property
    def manifest(self) -> pathlib.Path:
        """Beside the model."""
        return self.part(PACKED_MANIFEST)

    @property
    def ngram(self) -> pathlib.Path:
        return self.part(PACKED_NGRAM)

    @property
    def names(self) -> list[str]:
        """Of all files that an export may have."""
        return [self.model.name, *(self.part(name).name for name in SUFFIXES)]


def to_bytes(manifest: dict[str, Any]) -> bytes:
    """The file of a manifest."""
    return (json.dumps(manifest, indent=2, ensure_ascii=False) + "\n").encode()


def load_checked(model: pathlib.Path) -> tuple[dict[str, Any], Vocabulary]:
    """Manifest and vocabulary of a model, once all parts are known to belong together.

    Needs no runtime; the model is not opened.

    Raises:
      ExportError: A part is missing, damaged, or from another export.
    """
    check_not_interrupted(model)
    paths = ExportPaths(model)
    model_data = _read(paths.model)
    if model_data[4:8] != _FILE_IDENTIFIER:
        raise ExportError(f"{model}: not a TFLite model. Export it again.")
    packed = {} if paths.manifest.is_file() else associated_files.extract(model_data, paths.model)
    if PACKED_MANIFEST in packed:
        manifest = _parse(packed[PACKED_MANIFEST], paths.model)
        vocabulary_data = packed.get(PACKED_VOCABULARY, b"")
        vocabulary_name: pathlib.Path = paths.model
    elif paths.manifest.is_file():
        manifest = _parse(_read(paths.manifest), paths.manifest)
        vocabulary_data = _read(paths.vocabulary)
        vocabulary_name = paths.vocabulary
    else:
        raise ExportError(
            f"{paths.manifest}: the manifest of the model is missing. Keep the files of an "
            "export together, or export again."
        )
    # A packed file goes on behind the model itself.
    _check(model_data[: manifest["model"]["bytes"]], manifest["model"], paths.model)
    _check(vocabulary_data, manifest["vocabulary"], vocabulary_name)
    return manifest, vocabulary_file.decode(vocabulary_data, str(vocabulary_name))


def check_not_interrupted(model: pathlib.Path) -> None:
    """Changes nothing: what lies beside a model may have come from somebody else.

    Raises:
      ExportError: An export to this name goes on, or was killed in the middle of it.
    """
    if file_sets.is_interrupted(model):
        raise ExportError(
            f"{file_sets.ready_directory(model)}: an export was interrupted here, old files may be "
            f"mixed with new ones. Run `export` to {model.name} again, or ask for a whole copy."
        )


def load_ngram(model: pathlib.Path, manifest: dict[str, Any]) -> bytes:
    """The n-gram file of an export whose manifest has an `ngram`.

    Raises:
      ExportError: It is missing, damaged, or from another export.
    """
    data, name = load_part(model, PACKED_NGRAM), ExportPaths(model).ngram
    if data is None:
        raise ExportError(f"{name}: cannot be read. Keep the files of one export together.")
    _check(data, manifest["ngram"], name)
    return data


def load_part(model: pathlib.Path, name: str) -> bytes | None:
    """A file beside a model, or packed into it; None if there is none.

    Args:
      model: The `.tflite` file.
      name: In `SUFFIXES`.

    Raises:
      ExportError: It cannot be read.
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


def _parse(data: bytes, path: pathlib.Path) -> dict[str, Any]:
    try:
        manifest = json.loads(data)
    except (ValueError, RecursionError):
        manifest = None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ExportError(f"{path}: not a manifest of format {FORMAT!r}. Export the model again.")
    try:
        complete = _is_complete(manifest)
    except (KeyError, TypeError, AttributeError):
        complete = False
    if not complete:
        raise ExportError(f"{path}: a field of the manifest is missing or wrong. Export again.")
    return manifest


def _is_complete(manifest: dict[str, Any]) -> bool:
    """Whether the fields that are read are there and of their kind."""
    model, vocabulary = manifest["model"], manifest["vocabulary"]
    ids = manifest["special_ids"]
    parts = [model, vocabulary, *([manifest["ngram"]] if "ngram" in manifest else [])]
    return (
        ids == SPECIAL_IDS
        and all(type(word_id) is int for word_id in ids.values())
        and all(isinstance(part["sha256"], str) for part in parts)
        and all(_is_count(model["state_sizes"][name], _MOST_STATES) for name in ("c", "h"))
        and _is_count(model["top_k"], _MOST_STATES)
        and _is_count(model["bytes"], _MOST_BYTES[".tflite"])
        and isinstance(model["quantization"], str)
        and _is_length(model.get("training_length"))
    )


def _is_count(value: Any, most: int) -> bool:
    """Whether it is a number from 1 on; True is none."""
    return type(value) is int and 1 <= value <= most


def _is_length(value: Any) -> bool:
    """Whether it is a number of targets of training sequences; older exports have none."""
    return value is None or (type(value) is int and 2 <= value < 1_000_000)


def _check(data: bytes, entry: dict[str, Any], path: pathlib.Path) -> None:
    if sha256(data) != entry["sha256"]:
        raise ExportError(
            f"{path}: not the file its manifest describes: damaged, or from another export. "
            "Keep the files of one export together, or export again."
        )
