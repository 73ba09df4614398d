"""Reads messages from lines `user<TAB>text`, with users in any order."""

import functools
import pathlib
from collections.abc import Iterator, Sequence

from tff_keyboard.data.sources import lines
from tff_keyboard.data.sources.messages import Message, ParserState
from tff_keyboard.data.sources.tables import csv_files
from tff_keyboard.data.sources.tables.columns import CLIENT_NAMES, TEXT_NAMES, normal_name


def read_messages(paths: Sequence[pathlib.Path], reading: ParserState) -> Iterator[Message]:
    """Yields the messages of UTF-8 TSV or TSV.gz files in order.

    The same name in two files is the same user. A first line of column names (`user<TAB>text` and
    similar) is skipped and counted. Raises the errors of `lines.read_lines`. If bad lines are
    errors, also raises `DataError` for a line with no tab, more than one, nothing before it, or a
    user in quotation marks: spreadsheets quote, and `data.source` = "csv" reads their files.
    """
    bytes_before = 0
    for path in paths:
        for number, line in lines.read_lines(path, reading, bytes_before=bytes_before):
            bad = functools.partial(reading.bad_line, path, number)
            name, tab, message = line.partition("\t")
            is_plain = tab and number > 1 and name[:1] != '"' and "\t" not in message
            if is_plain and (name := name.strip()):
                yield Message(name, message)
                continue
            user, *texts = line.split("\t")
            if number == 1 and _is_header([user, *texts]):
                reading.skip("header")
            elif not texts:
                bad(
                    "no_tab",
                    "the line has no tab; it should read user<TAB>text. Put the name of the user "
                    "and a tab before the message; for text without users, use "
                    "--set=data.source=text.",
                )
            elif len(texts) > 1:
                bad(
                    "extra_tabs",
                    f"the line has {1 + len(texts)} columns; it should read user<TAB>text. Keep "
                    "two columns (cut -f1,2), or replace tabs inside messages.",
                )
            elif not user.strip():
                bad("empty_user", "there is no user before the tab. Fill in who typed the message.")
            elif csv_files.is_in_quotes(user.strip()):
                bad(
                    "quoted",
                    "the user is in quotation marks, as spreadsheets write it. Read the file with "
                    "--set=data.source=csv.",
                )
            else:
                yield Message(user.strip(), texts[0])
        bytes_before += path.stat().st_size


def _is_header(columns: Sequence[str]) -> bool:
    names = [normal_name(column) for column in columns]
    return len(names) == 2 and names[0] in CLIENT_NAMES and names[1] in TEXT_NAMES
