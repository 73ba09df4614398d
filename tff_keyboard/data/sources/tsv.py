"""Messages from lines `user<TAB>text`; users may be in any order."""

import functools
import pathlib
from collections.abc import Iterator, Sequence

from tff_keyboard.data.sources import lines
from tff_keyboard.data.sources.messages import Message, Reading

_HEADER_USERS = {"user", "user_id", "userid", "client", "client_id", "author"}
_HEADER_TEXTS = {"text", "message", "messages", "sentence"}


def read_messages(paths: Sequence[pathlib.Path], reading: Reading) -> Iterator[Message]:
    """Yields the messages of UTF-8 TSV or TSV.gz files in their order.

    A user of that name in two files is one user. A first line of column names (`user<TAB>text` and
    the like) is skipped and counted. Errors are those of `lines.read_lines`; and, where bad lines
    are errors, a `DataError` for a line with no tab, more than one, or nothing before it.
    """
    bytes_before = 0
    for path in paths:
        for number, line in lines.read_lines(path, reading, bytes_before=bytes_before):
            bad = functools.partial(reading.bad_line, path, number)
            name, tab, message = line.partition("\t")
            if tab and number > 1 and "\t" not in message and (name := name.strip()):
                yield Message(name, message)
                continue
            user, *texts = line.split("\t")
            if number == 1 and _is_header([user, *texts]):
                reading.skip("header")
            elif not texts:
                bad(
                    "no_tab",
                    "the line has no tab; it should read user<TAB>text. Put the name of the user "
                    "and a tab before the message; text without people is read with "
                    "--set=data.source=text.",
                )
            elif len(texts) > 1:
                bad(
                    "extra_tabs",
                    f"the line has {1 + len(texts)} columns; it should read user<TAB>text. Keep "
                    "two columns (cut -f1,2), or replace tabs inside messages.",
                )
            elif not user.strip():
                bad("empty_user", "there is no user before the tab. Name who typed it.")
            else:
                yield Message(user.strip(), texts[0])
        bytes_before += path.stat().st_size


def _is_header(columns: Sequence[str]) -> bool:
    names = [column.strip().lower() for column in columns]
    return len(names) == 2 and names[0] in _HEADER_USERS and names[1] in _HEADER_TEXTS
