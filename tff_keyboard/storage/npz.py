"""Reads archives of arrays (`.npz`) that may be damaged or made by an attacker.

`np.load` allocates whatever size the header of an array declares, and unpacks whatever a small
archive expands to. Here all headers are read first: names, types and shapes. So a caller can
compare them with the arrays that it expects before any memory is used for them. Archives have no
pickled objects.

Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

import contextlib
import dataclasses
import errno
import lzma
import math
import pathlib
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from typing import IO, Any

import numpy as np

from tff_keyboard.storage import files

_SUFFIX = ".npy"
_MAX_ARRAYS = 10_000
_NUMERIC_KINDS = "biuf"  # of `np.dtype.kind`
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA)

# Weights hardly compress: `models/base`, whose weights are rounded, by a factor of 4. An archive of
# zeros, made to fill the memory, expands a thousandfold and more.
_MAX_EXPANSION = 100
_ALWAYS_ALLOWED_BYTES = 64 * 2**20

_UNREADABLE = (
    *(ValueError, EOFError, RuntimeError, NotImplementedError),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError),
)
_FORMAT: Any = np.lib.format


class InvalidArchiveError(ValueError):
    """An archive that cannot be read safely. The message is a clause: "it is ..."."""


@dataclasses.dataclass(frozen=True)
class ArrayHeader:
    """The declared type and shape of an array.

    >>> ArrayHeader(np.dtype("float32"), (10**6, 10**6)).nbytes
    4000000000000
    """

    dtype: np.dtype
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Number of bytes of the elements."""
        return self.size * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{self.dtype} {list(self.shape)}"


def read_headers(path: pathlib.Path) -> dict[str, ArrayHeader]:
    """Returns the header of each array by name, in the order of the archive.

    Reads no array.

    Raises:
      OSError: If the file cannot be opened or read.
      InvalidArchiveError: If the file is not an archive of numbers; if an array declares another
        size than the archive has for it; or if all arrays together are more than 64 MiB and more
        than 100 times the size of the file.
    """
    with _open_archive(path) as archive:
        return _headers(archive, path.stat().st_size)


def read_arrays(path: pathlib.Path, names: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """Returns arrays by name, after the checks of `read_headers`.

    Args:
      path: The archive.
      names: Names of the arrays to read; None means all.

    Raises:
      OSError: If the file cannot be opened or read.
      InvalidArchiveError: See `read_headers`; or if a name is missing, or an array is damaged.
    """
    with _open_archive(path) as archive:
        headers = _headers(archive, path.stat().st_size)
        missing = [name for name in names or () if name not in headers]
        if missing:
            raise InvalidArchiveError(f"it has no array {missing[0]!r}")
        arrays: dict[str, np.ndarray] = {}
        for name in headers if names is None else names:
            with archive.open(name + _SUFFIX) as member:
                arrays[name] = _FORMAT.read_array(member, allow_pickle=False)
        return arrays


@contextlib.contextmanager
def _open_archive(path: pathlib.Path) -> Iterator[zipfile.ZipFile]:
    """Yields the archive. Errors in its content become `InvalidArchiveError`."""
    try:
        with files.open_regular(path, follow_link=True) as file, zipfile.ZipFile(file) as archive:
            yield archive
    except InvalidArchiveError:
        raise
    except (*_UNREADABLE, OSError) as error:
        # A damaged archive can name a place before the start of the file.
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        raise InvalidArchiveError(
            f"it is not a sound archive of arrays ({type(error).__name__})"
        ) from None


def _headers(archive: zipfile.ZipFile, file_bytes: int) -> dict[str, ArrayHeader]:
    """Returns the header of each array. Raises `InvalidArchiveError` unless the sizes add up."""
    headers: dict[str, ArrayHeader] = {}
    members = archive.infolist()
    if len(members) > _MAX_ARRAYS:
        raise InvalidArchiveError(f"it has more than {_MAX_ARRAYS:,} arrays")
    for info in members:
        name = info.filename.removesuffix(_SUFFIX)
        quoted = repr(name[:100])
        if name == info.filename or name in headers or info.compress_type not in _COMPRESSIONS:
            raise InvalidArchiveError(f"{quoted} is not an array that NumPy wrote, or occurs twice")
        with archive.open(info) as member:
            header = _header(member)
            space = info.file_size - member.tell()
        if header.dtype.kind not in _NUMERIC_KINDS:
            raise InvalidArchiveError(f"{quoted} is {header.dtype}, but must be numbers")
        if header.nbytes != space:
            raise InvalidArchiveError(
                f"{quoted} declares {header.nbytes:,} bytes, but the archive has {space:,} for it"
            )
        headers[name] = header
    declared = sum(header.nbytes for header in headers.values())
    if declared > max(_ALWAYS_ALLOWED_BYTES, _MAX_EXPANSION * file_bytes):
        raise InvalidArchiveError(
            f"its arrays declare {declared:,} bytes, more than {_MAX_EXPANSION} times the "
            f"{file_bytes:,} bytes of the file"
        )
    return headers


def _header(member: IO[bytes]) -> ArrayHeader:
    """Returns the type and shape of an array. Leaves the stream at its first value."""
    # Only version 1.0, which NumPy writes for all arrays of numbers: its header has at most 64 KiB.
    if _FORMAT.read_magic(member) != (1, 0):
        raise InvalidArchiveError("it has an array of another format version")
    try:
        shape, _, dtype = _FORMAT.read_array_header_1_0(member)
    except Exception:  # NumPy parses it as Python, which raises errors of many kinds
        raise InvalidArchiveError("it has an array without a valid header") from None
    if any(side < 0 for side in shape):
        raise InvalidArchiveError("it has an array with a negative size")
    return ArrayHeader(dtype, shape)
