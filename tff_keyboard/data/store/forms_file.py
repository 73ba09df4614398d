"""The file of the capitalised forms of words (`truecase.txt`): UTF-8, one form per line."""

import pathlib
from collections.abc import Iterable

from tff_keyboard.storage import files
from tff_keyboard.storage.errors import DataError


def to_bytes(forms: Iterable[str]) -> bytes:
    """Returns the content of the file.

    >>> to_bytes(["NUS", "Singapore"])
    b'NUS\\nSingapore\\n'
    """
    return "".join(f"{form}\n" for form in forms).encode()


def read_forms(path: pathlib.Path, *, follow_link: bool = True) -> list[str]:
    """Reads the forms that `to_bytes` wrote.

    Raises `DataError` if the file is damaged, and `OSError` as `files.content`.
    """
    try:
        return files.content(path, follow_link=follow_link).decode("utf-8").split("\n")[:-1]
    except UnicodeDecodeError:
        raise DataError(f"{path}: is damaged: not valid UTF-8. Restore it from a copy.") from None
