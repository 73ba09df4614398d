"""Parses TOML from files, with `tomllib`, or its predecessor `tomli` before Python 3.11.

`tomllib.loads` raises a `RecursionError` for deeply nested text, and a plain `ValueError` for a
number of thousands of digits. Shorter numbers fail later, when they become floats. `parse` raises
one kind of error for all of these.
"""

import sys
from typing import Any

from tff_keyboard.storage import json_text

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

InvalidTomlError = tomllib.TOMLDecodeError  # a `ValueError`

MAX_DEPTH = json_text.MAX_DEPTH
_MAX_INT = 2**64 - 1


def parse(text: str) -> dict[str, Any]:
    """Returns the tables of a TOML text.

    Raises:
      InvalidTomlError: If the text is not TOML, is nested deeper than `MAX_DEPTH`, or has a whole
        number that does not fit into 64 bits. The message quotes at most one character of the text.

    >>> parse("[train]\\nrounds = 3")
    {'train': {'rounds': 3}}
    """
    try:
        tables: dict[str, Any] = tomllib.loads(text)  # noqa: TID251
    except InvalidTomlError:
        raise
    except RecursionError:
        raise InvalidTomlError(f"it is nested deeper than {MAX_DEPTH} levels") from None
    except ValueError:  # Python limits the digits of a number
        raise InvalidTomlError("it has a whole number that is too long") from None
    try:
        json_text.check_values(tables, max_int=_MAX_INT)
    except json_text.InvalidJsonError as error:
        raise InvalidTomlError(str(error)) from None
    return tables
