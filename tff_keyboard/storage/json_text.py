"""Parses JSON from files and network answers, which may be damaged or made by an attacker.

`json.loads` raises several kinds of errors, among them a `RecursionError` for text such as
`[[[[...`, and it accepts values on which later code fails: text nested so deeply that only a
recursive reader fails on it, and whole numbers that are too large for a float. `parse` raises one
kind of error for all of these. All readers of the project use it; ruff rejects `json.loads`
elsewhere.
"""

import json
import re
from typing import Any

MAX_DEPTH = 100  # lists and objects inside each other; our own formats have at most 10
MAX_DIGITS = 300  # of a whole number; the largest float has 309

_LONG_NUMBER = re.compile(rf"[0-9]{{{MAX_DIGITS + 1}}}")


class InvalidJsonError(ValueError):
    """Text that is not JSON, or JSON that no reader should accept.

    The message is a clause for an error of one line, such as "it is not valid JSON". It quotes
    nothing of the text.

    Attributes:
      line: Number of the line with the error, from 1; None if the error is not in one line.
    """

    def __init__(self, reason: str, line: int | None = None):
        super().__init__(reason)
        self.line = line


class NotUtf8Error(InvalidJsonError):
    """Bytes that are not UTF-8."""


def parse(text: str | bytes) -> Any:
    """Returns the value of a JSON text.

    Args:
      text: The text, or its bytes in UTF-8, with or without a byte order mark.

    Raises:
      InvalidJsonError: If the text is not UTF-8 or not JSON, is nested deeper than `MAX_DEPTH`, or
        has a whole number of more than `MAX_DIGITS` digits.

    >>> parse(b'{"rounds": 3}')
    {'rounds': 3}
    >>> parse("[" * 100_000)
    Traceback (most recent call last):
    tff_keyboard.storage.json_text.InvalidJsonError: it is nested deeper than 100 levels
    """
    try:
        decoded = text.decode("utf-8") if isinstance(text, bytes) else text
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise NotUtf8Error("it is not UTF-8", line) from None
    decoded = decoded.removeprefix("\ufeff")
    parse_int = _short_int if _LONG_NUMBER.search(decoded) else None
    try:
        value = json.loads(decoded, parse_int=parse_int)  # noqa: TID251
    except json.JSONDecodeError as error:
        raise InvalidJsonError("it is not valid JSON", error.lineno) from None
    except RecursionError:
        raise _too_deep() from None
    if decoded.count("[") + decoded.count("{") > MAX_DEPTH and is_deeper(value, MAX_DEPTH):
        raise _too_deep()
    return value


def is_deeper(value: object, max_depth: int) -> bool:
    """Returns whether dicts and lists are nested more than `max_depth` times. Does not recurse.

    >>> is_deeper([{}], 2), is_deeper([{}], 1)
    (False, True)
    """
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(max_depth):
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, dict | list)
        ]
    return bool(level)


def _short_int(digits: str) -> int:
    if len(digits.lstrip("-")) > MAX_DIGITS:
        raise InvalidJsonError(f"it has a number of more than {MAX_DIGITS} digits")
    return int(digits)


def _too_deep() -> InvalidJsonError:
    return InvalidJsonError(f"it is nested deeper than {MAX_DEPTH} levels")
