"""Files packed into a `.tflite`, by the convention of TFLite metadata.

An uncompressed ZIP archive behind the flatbuffer: the interpreter does not look behind its own
data, any unzip tool lists the files, and Android's `MetadataExtractor` reads them (it takes
uncompressed entries only). https://ai.google.dev/edge/litert/conversion/tensorflow/metadata
"""

import io
import pathlib
import zipfile
from collections.abc import Mapping

from tff_keyboard.storage.errors import ExportError

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same files give the same bytes


def append(model: bytes, files: Mapping[str, bytes]) -> bytes:
    """The model with files behind it.

    >>> packed = append(b"TFL3...", {"words.txt": b"to"})
    >>> packed.startswith(b"TFL3..."), extract(packed)
    (True, {'words.txt': b'to'})
    """
    stream = io.BytesIO(model)
    with zipfile.ZipFile(stream, "a", zipfile.ZIP_STORED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data)
    return stream.getvalue()


def extract(data: bytes, path: pathlib.Path | str = "model") -> dict[str, bytes]:
    """The files behind a model; empty if there are none.

    Raises:
      ExportError: The archive is damaged.
    """
    stream = io.BytesIO(data)
    if not zipfile.is_zipfile(stream):
        return {}
    try:
        with zipfile.ZipFile(stream) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    except (zipfile.BadZipFile, ValueError, NotImplementedError, RuntimeError) as error:
        raise ExportError(
            f"{path}: the files packed behind the model are damaged ({error}). Export it again."
        ) from None
