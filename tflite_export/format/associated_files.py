"""Files packed into a `.tflite`, by the convention of TFLite metadata.

An uncompressed ZIP archive is appended to the flatbuffer. The interpreter ignores bytes after its
own data, any unzip tool lists the files, and Android's `MetadataExtractor` reads them (it accepts
uncompressed entries only). https://ai.google.dev/edge/litert/conversion/tensorflow/metadata
"""

import io
import pathlib
import zipfile
from collections.abc import Mapping

from tff_keyboard.storage.errors import ExportError

VOCABULARY, MANIFEST, NGRAM = "keyboard.vocabulary", "keyboard.json", "keyboard.ngram"
TAIL, CARD, SIGNATURE = "keyboard.tail", "keyboard.md", "keyboard.sig"
NAMES = (VOCABULARY, MANIFEST, NGRAM, TAIL, CARD, SIGNATURE)  # all files that an export packs

_EPOCH = (1980, 1, 1, 0, 0, 0)  # constant, so that the same files give the same bytes
_END_MARK, _END_BYTES = b"PK\5\6", 22  # the record at the end of an archive
_LOCATOR_MARK, _LOCATOR_BYTES = b"PK\6\7", 20  # ZIP64's locator of another directory
_MAX_DIRECTORY_BYTES = sum(46 + len(name) for name in NAMES)


def append(model: bytes, files: Mapping[str, bytes]) -> bytes:
    """Returns the model with the files appended.

    >>> packed = append(b"TFL3...", {"keyboard.json": b"{}"})
    >>> packed.startswith(b"TFL3..."), extract(packed)
    (True, {'keyboard.json': b'{}'})
    """
    stream = io.BytesIO(model)
    with zipfile.ZipFile(stream, "a", zipfile.ZIP_STORED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data)
    return stream.getvalue()


def extract(data: bytes, path: pathlib.Path | str = "model") -> dict[str, bytes]:
    """Returns the files appended to a model, or an empty dict if there are none.

    Reads only archives as `append` writes them: few stored entries with known names. An entry then
    has at most as many bytes as the file, so that reading takes no more memory than the file does.

    Raises:
      ExportError: If the archive is damaged, or is not one that an export writes.
    """
    if not _has_archive(data):
        return {}
    entries: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for entry in archive.infolist():
                _check_entry(entry, entries, len(data))
                entries[entry.filename] = archive.read(entry)
    except (zipfile.BadZipFile, ValueError, NotImplementedError, RuntimeError, EOFError) as error:
        why = str(error)[:80]  # it may quote a very long name from the file
        raise ExportError(
            f"{path}: the files packed after the model are damaged ({why}). Export it again."
        ) from None
    return entries


def _has_archive(data: bytes) -> bool:
    """Checks whether the file ends with a ZIP directory, as an archive without a comment does.

    `zipfile` reads as many entries as the directory's bytes hold, whatever the directory's count
    says. Therefore this function limits the bytes.

    Raises:
      ExportError: If the directory is larger than an export's.
    """
    end = data[-_END_BYTES:]
    if len(end) < _END_BYTES or not end.startswith(_END_MARK):
        return False
    is_large = int.from_bytes(end[12:16], "little") > _MAX_DIRECTORY_BYTES
    if is_large or data[:-_END_BYTES][-_LOCATOR_BYTES:].startswith(_LOCATOR_MARK):
        raise ExportError(
            "After the model there are more files than an export packs. Export it again."
        )
    return True


def _check_entry(entry: zipfile.ZipInfo, entries: Mapping[str, bytes], max_bytes: int) -> None:
    """Raises `ValueError` unless an entry is a known file, stored as it is, that occurs once."""
    if entry.filename not in NAMES or entry.filename in entries:
        raise ValueError("an entry that is unknown or occurs twice")
    if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
        raise ValueError("an entry that is compressed or encrypted")
    if entry.file_size != entry.compress_size or entry.file_size > max_bytes:
        raise ValueError("an entry with an invalid size")
