"""Parses JSON from files and network answers, which may be damaged or made by an attacker.

`json.loads` raises several kinds of errors, among them a `RecursionError` for text such as
`[[[[...`, and it accepts values on which later code fails: text nested so deeply that only a
recursive reader fails on it, and whole numbers that are too large for a float. `parse` raises one
kind of error for all of these. All readers of the project use it; ruff rejects `json.loads`
elsewhere.

Exports of chat programs may have two defects that leave no doubt about the value: control
characters in strings, and ids without quotation marks. `parse` repairs them if its caller asks for
it. The project's own files are always read strictly.
"""

import json
import re
from typing import Any, Literal, NamedTuple

MAX_DEPTH = 100  # lists and objects inside each other; our own formats have at most 10
MAX_DIGITS = 300  # of a whole number; the largest float has 309

_MAX_INT = 10**MAX_DIGITS - 1
_CHECKED = (dict, list, int)  # types of `check_values`
_TOO_DEEP = f"it is nested deeper than {MAX_DEPTH} levels"
_LONG_NUMBER = "it has a whole number that is too long"


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


Defect = Literal["control_character", "unquoted_id"]


class Repair(NamedTuple):
    """One place at which a defect of a JSON text was repaired."""

    defect: Defect
    line: int  # from 1


# An id without quotation marks, which ends with its line or at a comma or bracket; or a string,
# closed or not. A match never begins inside a string, so the time is linear.
_ID = r"""
    (?P<key> "[\w.-]*id" [\ \t]* : [\ \t]* )
    (?! (?: true | false | null | -?\d+(?:\.\d+)?(?:[eE][+-]?\d+)? ) [\ \t]* [,\]}\r\n] )
    (?P<id> [^\s"{}\[\],:] [^"{}\[\],:\r\n]* ) (?= [,\]}\r\n] )
"""
_STRING = r'" [^"\\]* (?: \\. [^"\\]* )* (?: " | \\?\Z )'
_TOKEN = re.compile(rf"{_ID} | {_STRING}", re.DOTALL | re.VERBOSE)
# The escape of Telegram Desktop; another escape; a control character.
_CONTROL = re.compile(r"\\x(?P<code>[01][0-9A-Fa-f])|(?P<escape>\\.)|[\0-\x1f]", re.DOTALL)


class NotUtf8Error(InvalidJsonError):
    """Bytes that are not UTF-8."""


def parse(text: str | bytes, *, repairs: list[Repair] | None = None) -> Any:
    """Returns the value of a JSON text.

    Args:
      text: The text, or its bytes in UTF-8, with or without a byte order mark.
      repairs: If given, control characters in strings (as bytes, or as the escape `\\x01` that
        Telegram Desktop writes) and unquoted values of keys that end in "id" are accepted, and each
        is added to this list.

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
    try:
        value = _value(decoded.removeprefix("\ufeff"), repairs)
    except json.JSONDecodeError as error:
        raise InvalidJsonError("it is not valid JSON", error.lineno) from None
    except ValueError:  # Python limits the digits of a number
        raise InvalidJsonError(_LONG_NUMBER) from None
    except RecursionError:
        raise InvalidJsonError(_TOO_DEEP) from None
    check_values(value, max_int=_MAX_INT)
    return value


def _value(text: str, repairs: list[Repair] | None) -> Any:
    """Returns the value of a JSON text, repaired if it is invalid and `repairs` is a list."""
    try:
        return json.loads(text)  # noqa: TID251
    except json.JSONDecodeError:
        if repairs is None:
            raise
    places: list[tuple[Defect, int]] = []
    # No repair adds or removes a line feed, so an error has its line in the text.
    value = json.loads(_repaired(text, places), strict=False)  # noqa: TID251
    line, end = 1, 0
    for defect, start in places:
        line, end = line + text.count("\n", end, start), start
        repairs.append(Repair(defect, line))
    return value


def _repaired(text: str, places: list[tuple[Defect, int]]) -> str:
    """Returns the text with valid escapes and ids. Control characters in strings stay.

    Adds the defect and the offset of each place to `places`.
    """

    def repair_token(token: re.Match[str]) -> str:
        """Returns a string or key with its quotes and without control characters.

        Notes each defect in `places`.
        """
        if token["id"] is not None:
            places.append(("unquoted_id", token.start("id")))
            return token["key"] + json.dumps(token["id"].rstrip())

        def repair_control(match: re.Match[str]) -> str:
            if match["escape"]:
                return match[0]
            places.append(("control_character", token.start() + match.start()))
            return rf"\u00{match['code']}" if match["code"] else match[0]

        return _CONTROL.sub(repair_control, token[0])

    return _TOKEN.sub(repair_token, text)


def check_values(value: object, *, max_int: int) -> None:
    """Checks the depth and the whole numbers of nested dicts and lists. Does not recurse.

    Args:
      value: The outermost value, which may be of any type.
      max_int: Largest absolute value of a whole number.

    Raises:
      InvalidJsonError: If dicts and lists are nested deeper than `MAX_DEPTH`, or a number is too
        large.

    >>> check_values([{"a": 10}], max_int=9)
    Traceback (most recent call last):
    tff_keyboard.storage.json_text.InvalidJsonError: it has a whole number that is too long
    """
    level: list[Any] = [[value]]
    for _ in range(MAX_DEPTH + 1):
        children = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, _CHECKED)
        ]
        level = [child for child in children if not isinstance(child, int)]
        if any(isinstance(child, int) and not -max_int <= child <= max_int for child in children):
            raise InvalidJsonError(_LONG_NUMBER)
        if not level:
            return
    raise InvalidJsonError(_TOO_DEEP)
