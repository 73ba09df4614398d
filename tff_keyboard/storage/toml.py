"""Parses TOML from files, with `tomllib`, or its predecessor `tomli` before Python 3.11.

`tomllib.loads` raises a `RecursionError` for deeply nested text, and a plain `ValueError` for a
number of thousands of digits. Shorter numbers fail later, when they become floats. For a key of n
names, such as a.b.c, it needs memory for n^2 / 2 names: 40 GB for a file of 200 kB. `parse` raises
one kind of error for all of these.
"""

import re
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
# More than `MAX_DEPTH` names joined by dots, bare or in quotes. A search from every quotation mark
# would take hours for a line with many escaped ones.
_NAME = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_LONG_KEY = re.compile(
    rf"(?:^|[\[{{,])[ \t]*(?:{_NAME}[ \t]*\.[ \t]*){{{MAX_DEPTH + 1}}}", re.MULTILINE
)


def parse(text: str) -> dict[str, Any]:
    """Returns the tables of a TOML text.

    Raises:
      InvalidTomlError: If the text is not TOML, is nested deeper than `MAX_DEPTH`, or has a whole
        number that does not fit into 64 bits. The message quotes at most one character of the text.

    >>> parse("[train]\\nrounds = 3")
    {'train': {'rounds': 3}}
    """
    if _LONG_KEY.search(text):
        raise InvalidTomlError(f"it is nested deeper than {MAX_DEPTH} levels")
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
