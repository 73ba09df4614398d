"""Finds operators of a `.tflite` file that are not TFLite's own, before a runtime opens the file.

TFLite's own operators only compute. A *custom* operator can do anything: if TensorFlow is in the
process, the interpreter, also LiteRT's, runs every operation of TensorFlow that a file names as
"Flex...", such as one that writes files. Exports have no custom operators (`inspection.verify`).

The file may come from another person, so every read is checked against its bounds. The numbers of
fields are those of TFLite's schema.fbs; https://flatbuffers.dev/internals explains the format.
"""

import mmap
import pathlib
import struct

from tff_keyboard.storage.errors import ExportError

_CUSTOM = 32  # `BuiltinOperator.CUSTOM`
_OPERATOR_CODES = 1  # field of `Model`: a table for each kind of operator
_OLD_CODE, _CODE = 0, 3  # fields of `OperatorCode`; a reader takes the larger one
_MAX_KINDS = 1_000  # our files have about 30


def check_own(path: pathlib.Path) -> None:
    """Checks that all operators of a file are TFLite's own.

    Raises:
      ExportError: If one is not, or the file is not a TFLite model or cannot be read.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            has_custom = _has_custom(data)
    except OSError as error:
        raise ExportError(f"{path}: cannot be read ({error.strerror}).") from None
    except (struct.error, ValueError):  # a read outside of the file, or an empty file
        raise ExportError(
            f"{path}: not a model the TFLite interpreter can open (it is not whole). Export it "
            "again."
        ) from None
    if has_custom:
        raise ExportError(
            f"{path}: has operators that are not TFLite's own. An export has none, and they could "
            "run any code. Do not use this file."
        )


def _has_custom(data: mmap.mmap) -> bool:
    place = _field(data, _uint32(data, 0), _OPERATOR_CODES)
    if place is None:
        return False
    start = place + _uint32(data, place)
    count = _uint32(data, start)
    if count > _MAX_KINDS:
        raise ValueError("more kinds of operators than TFLite has")
    kinds = [start + 4 * number for number in range(1, count + 1)]
    return any(_is_custom(data, kind + _uint32(data, kind)) for kind in kinds)


def _is_custom(data: mmap.mmap, table: int) -> bool:
    old, new = _field(data, table, _OLD_CODE), _field(data, table, _CODE)
    codes = (old is not None and _read(data, "<b", old), new is not None and _read(data, "<i", new))
    return _CUSTOM in codes


def _field(data: mmap.mmap, table: int, number: int) -> int | None:
    """Returns the place of a field of a table; None if the table does not have it."""
    description = table - _read(data, "<i", table)
    slot = 4 + 2 * number
    if slot >= _read(data, "<H", description):
        return None
    offset = _read(data, "<H", description + slot)
    return table + offset if offset else None


def _uint32(data: mmap.mmap, place: int) -> int:
    return _read(data, "<I", place)


def _read(data: mmap.mmap, kind: str, place: int) -> int:
    if place < 0:  # `struct` would count from the end
        raise ValueError("outside of the file")
    value: int = struct.unpack_from(kind, data, place)[0]
    return value
