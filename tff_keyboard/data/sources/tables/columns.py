"""Finds the client, text and time columns of a table, and converts rows to messages."""

import dataclasses
import datetime
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tff_keyboard.data.sources.messages import Typed, clean_text
from tff_keyboard.storage import errors

# Column names for guessing, best first; in lower case, with `_` between words.
CLIENT_NAMES = (
    *("client_id", "client", "user_id", "userid", "author_id", "authorid", "speaker_id"),
    *("sender_id", "from_id", "user", "username", "user_name", "screen_name", "author"),
    *("author_name", "speaker", "sender", "sender_name", "from", "nick", "nickname"),
)
TEXT_NAMES = (
    *("text", "message", "messages", "body", "content", "contents", "utterance", "sentence"),
    *("msg", "comment", "tweet", "post", "message_text", "full_text"),
)

BadRow = Callable[[str, str], None]  # reason, message


class ColumnOptions(NamedTuple):
    """The columns that the user named: by name, or by position from 1; "" to guess.

    `time` is never guessed. Without it, rows stay in the order of the file.
    """

    client: str = ""
    text: str = ""
    time: str = ""

    @property
    def are_positions(self) -> bool:
        """Whether columns are given by position, for a file without a header line."""
        return self.client.isdecimal() and self.text.isdecimal()


@dataclasses.dataclass(frozen=True)
class Columns:
    """Column indexes, or keys of objects. `time` is None if it is not used."""

    client: int | str
    text: int | str
    time: int | str | None
    description: str  # one line for the user

    def message(self, client: object, text: object, time: object, bad: BadRow) -> Typed | None:
        """Returns the message of a row, or None after a call of `bad` with the reason."""
        user = _client_text(client)
        if isinstance(client, dict | list):
            bad(
                "client_is_no_name",
                "the client column has an object or a list. Choose a field inside it, such as "
                "--client-column=author.id.",
            )
            return None
        if not user:
            bad("empty_user", "the client column is empty. Fill in who typed the message.")
            return None
        if isinstance(text, bytes):  # Parquet files of Impala and Hive do not mark text as text
            text = _decoded(text)
        if not isinstance(text, str):
            bad("no_text", "the text column has no text. Choose another one with --text-column.")
            return None
        if "\0" in text or "\0" in user:
            bad("nul", "the row has NUL characters. Remove them.")
            return None
        seconds = 0.0
        if self.time is not None:
            parsed_time = seconds_of(time)
            if parsed_time is None:
                bad(
                    "bad_time",
                    "the time column has neither a number nor an ISO 8601 time such as "
                    "2023-12-31T21:41:05Z. Leave --time-column out if the rows are sorted by time.",
                )
                return None
            seconds = parsed_time
        return Typed(seconds, clean_text(user), clean_text(text))


FIELDS = "--client-column=author.id names a field inside an object"


def choose_columns(
    names: Sequence[str], options: ColumnOptions, origin: str, hint: str = FIELDS
) -> Columns:
    """Finds the wanted columns among `names`, or guesses them.

    Raises:
      DataError: If a column is missing, occurs twice, or cannot be guessed. The message begins with
        `origin` and quotes no name in the file, because a file without a header line begins with
        private text. If nothing can be guessed, it ends with `hint`.
    """
    client, client_index = _choose(names, options.client, CLIENT_NAMES, "client", origin, hint)
    text, text_index = _choose(names, options.text, TEXT_NAMES, "text", origin, hint)
    if client_index == text_index:
        raise errors.DataError(
            f"{origin}: --client-column and --text-column are the same column, {client!r}."
        )
    time, time_index = None, None
    if options.time:
        time, time_index = _choose(names, options.time, (), "time", origin, hint)
    return Columns(client_index, text_index, time_index, description(client, text, time, options))


def description(client: str, text: str, time: str | None, options: ColumnOptions) -> str:
    """Returns one line with the columns that are read, and whether they were guessed."""
    guess = "" if options.client and options.text else " (guessed)"
    order = (
        f"ordered by {time!r}" if time else "in the order of the file (--time-column sorts them)"
    )
    return (
        f"client {client!r}, text {text!r}{guess}; {order}. choose other columns with "
        "--client-column and --text-column."
    )


def normal_name(name: str) -> str:
    """Normalises a column's name for comparisons.

    >>> normal_name(" User-Name")
    'user_name'
    """
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def field_of(row: dict[str, object], key: int | str) -> object:
    """Returns the value of a key, or of `a.b` in an inner object; None if there is none.

    >>> field_of({"author": {"id": 7}}, "author.id")
    7
    """
    assert isinstance(key, str)
    if key in row:
        return row[key]
    value: object = row
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _choose(
    names: Sequence[str],
    requested_name: str,
    common_names: Sequence[str],
    what: str,
    origin: str,
    hint: str,
) -> tuple[str, int]:
    """Returns the name and the index of one column."""
    normal = [normal_name(name) for name in names]
    if requested_name:
        matches = [index for index, name in enumerate(names) if name.strip() == requested_name]
        matches = matches or [
            i for i, name in enumerate(normal) if name == normal_name(requested_name)
        ]
        if not matches:
            raise errors.DataError(
                f"{origin}: none of the {len(names)} columns is {requested_name!r}. Check "
                f"--{what}-column; its first line must name the columns."
            )
    else:
        guess = next((name for name in common_names if name in normal), "")
        matches = [index for index, name in enumerate(normal) if guess and name == guess]
        if not matches:
            raise errors.DataError(
                f"{origin}: cannot find the {what} column. Choose the columns "
                f"(--client-column=NAME --text-column=NAME); {hint}."
            )
    if len(matches) > 1:
        name = requested_name or normal[matches[0]]
        raise errors.DataError(
            f"{origin}: {len(matches)} columns have the name {name!r}. Choose "
            f"another one with --{what}-column, or rename them."
        )
    return names[matches[0]].strip(), matches[0]


def seconds_of(value: object) -> float | None:
    """Converts a number or an ISO 8601 time to seconds since 1970; returns None for other values.

    Numbers of 12 digits and more are milli-, micro- or nanoseconds. A time without a zone is UTC.

    >>> seconds_of("1970-01-01T00:01:00Z"), seconds_of(1_704_058_860_000), seconds_of("noon")
    (60.0, 1704058860.0, None)
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, datetime.datetime):
        return _seconds(value)
    if isinstance(value, datetime.date):
        return _seconds(datetime.datetime(value.year, value.month, value.day))
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return _iso_seconds(value) if isinstance(value, str) else None
    if not math.isfinite(number):
        return None
    while abs(number) >= 1e11:
        number /= 1000
    return number


def _iso_seconds(text: str) -> float | None:
    """Returns seconds since 1970 of an ISO 8601 time, UTC if it names no zone; None if invalid."""
    text = text.strip().removesuffix(" UTC")
    if text[-1:] in ("Z", "z"):
        text = f"{text[:-1]}+00:00"  # the form that Python 3.10 can parse
    try:
        return _seconds(datetime.datetime.fromisoformat(text))
    except ValueError:
        return None


def _seconds(moment: datetime.datetime) -> float | None:
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.timezone.utc)
    try:
        return moment.timestamp()
    except OverflowError:
        return None


def _decoded(content: bytes) -> str | None:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _client_text(value: object) -> str:
    """Returns a client as text; "" if there is none."""
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        value = int(value)  # integer ids become floats in a table with missing values
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if abs(value) < 1 << 200 else ""
    if isinstance(value, bytes):  # a name, or the bytes of a UUID
        text = _decoded(value)
        return value.hex() if text is None else text.strip()
    return ""
