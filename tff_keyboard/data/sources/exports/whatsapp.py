"""WhatsApp's "Export chat": a text file, or the `_chat.txt` of its zip archive.

The two styles, and two languages of them:

    12/31/23, 9:41 PM - Anna: happy new year           Android
    31.12.23, 21:41 - Anna: gutes neues Jahr
    [31/12/2023, 21:41:05] Anna: happy new year        iPhone

A line without such a beginning continues the message above. Lines without a name are from WhatsApp.
iPhones mark text of WhatsApp ("image omitted") with an invisible U+200E at its beginning; Android
writes it in angle brackets. If the mark is lost, sentences of WhatsApp are recognised by their
wording (`automatic_lines.py`). Messages keep the order of the file, because the export does not
state whether the day or the month comes first.
"""

import pathlib
import re
from collections.abc import Iterator

from tff_keyboard.data.sources import json_documents, lines
from tff_keyboard.data.sources.exports import automatic_lines
from tff_keyboard.data.sources.exports.mentions import Mentions
from tff_keyboard.data.sources.messages import ParserState, Typed, clean_text
from tff_keyboard.storage import errors

_MARKS = "\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff"
_M = f"[{_MARKS}]*"  # Arabic dates have such marks between their numbers
_DATE = (
    rf"\d{{1,4}}{_M}(?:[./-]{_M} ?\d{{1,2}}{_M}[./-]{_M} ?|年 ?\d{{1,2}}月 ?|년 ?\d{{1,2}}월 ?)"
    rf"\d{{1,4}}[.日일]?(?: г\.)?"
)
_WORD = rf"[^\s\d:,،./()\[\]{_MARKS}-]{{1,12}}\.?"  # "PM", "Uhr", "오후"
_HALF_OF_DAY = rf"(?:[^\W\d_]\.? ?[^\W\d_]\.?|{_WORD})"  # also "p. m." and "μ.μ."
_TIME = (
    rf"(?:{_HALF_OF_DAY} ?)?\d{{1,2}}(?:[:.]| h )\d{{2}}(?:(?:[:.]| min )\d{{2}}(?: s)?)?"
    rf"(?: ?{_HALF_OF_DAY})?"
)
# No two `_M` are next to each other, because that would take quadratic time.
_STAMP = rf"{_DATE}[,،]?{_M}(?: um)? ?{_TIME}{_M}"
_BEGINNING = re.compile(rf"{_M}(?:\[{_M}{_STAMP}\] ?|{_STAMP}(?: [-–]|:) )(?P<rest>.*)", re.DOTALL)
_SENDER = re.compile(r'(?P<name>[^:"“”„«»]{1,100}):(?: |\Z)(?P<text>.*)', re.DOTALL)
_BLANKS = re.compile(r"[\u00a0\u202f\u2009\t]")
_NO_MEMBERS = automatic_lines.Members()
_INVISIBLE = re.compile(f"[{_MARKS}]")
# Placeholders of pictures in any language: `<Media omitted>`, `<attached: 1.jpg>`,
# `IMG-20231231-WA0001.jpg (file attached)`; and the mark of an edited message.
_OMITTED = re.compile(
    r"<[^<>]{3,60}>\Z|\S+\.[A-Za-z0-9]{2,5} \([^()]{3,40}\)(?:\Z| )"
    r"|[^<>()]{1,100}\.[A-Za-z0-9]{2,5} \([^()]{3,40}\)\Z"  # `Anna Lee.vcf (file attached)`
    r"|\w{3,20}: https://maps\.google\.com/\?q=\S+\Z"
)
# `<This message was edited>` in any language: in the exports of Android, at least two words.
_EDITED = re.compile(r"(?:[\u200e\u200f]<[^<>]{3,60}>|<[^\s<>]+ [^<>]{2,60}>)\Z")
# The first line, and the last one, of a poll: `POLL:`, the question, `OPTION: yes (2 votes)`
_POLL = re.compile(rf"{_M}\w{{3,20}} ?:\s*\Z")
_VOTES = re.compile(rf"{_M}[^:]{{3,20}}:.*\({_M}\d{{1,4}} [^()]{{2,20}}\)\Z")
# The last word of an iPhone's placeholder, in the languages of `automatic_lines.toml` and others.
_PLACEHOLDER = re.compile(
    r"(?:omitted|omitid[oa]s?|omess[oa]|ocultad[oa]|absente?s?|weggelassen|weggelaten|pominięt\w+"
    r"|dahil edilmedi|utelämnad\w*|udeladt|utelatt|utelatte|опущен\w*|пропущен\w*)\W*\Z",
    re.IGNORECASE,
)
# A placeholder whose mark another program has removed: "image omitted", "Bild weggelassen".
_UNMARKED = re.compile(
    r"\w{2,15}(?: card)? (?:omitted|omitid[oa]s?|weggelassen|weggelaten|pominięt\w|utelämnad\w?"
    r"|udeladt|utelatt)\Z",
    re.IGNORECASE,
)
_LONGEST_END = 80  # characters that have the last word of a placeholder
_MAX_PLACEHOLDER_WORDS = 3  # in other languages


def export_files(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the chats in a folder of unpacked exports, sorted.

    Each chat is in the folder itself or in its own subfolder.
    """
    names = ("_chat.txt", "WhatsApp Chat *.txt")
    patterns = (*names, *(f"*/{name}" for name in names))
    return sorted({path for pattern in patterns for path in folder.glob(pattern)})


def is_beginning(line: str) -> bool:
    """Checks if a line begins like a message of an export.

    >>> is_beginning("12/31/23, 9:41 PM - Anna: hi"), is_beginning("anna\\thi")
    (True, False)
    """
    return bool(_BEGINNING.match(_BLANKS.sub(" ", line)))


def read_messages(
    path: pathlib.Path, reading: ParserState, *, bytes_before: int = 0
) -> Iterator[Typed]:
    """Yields the messages of users, in the order of the file.

    Skips and counts lines of WhatsApp itself, and messages without text. Raises `DataError` like
    `lines.read_lines`; if no line begins like a message; and, if bad lines are errors, for a line
    before the first message.
    """
    mentions = Mentions(_senders(path))
    user = ""
    parts: list[str] = []
    is_begun = False
    for number, line in lines.read_lines(path, reading, bytes_before=bytes_before):
        beginning = _BEGINNING.match(_BLANKS.sub(" ", line))
        if beginning is None:
            if not is_begun:
                reading.bad_line(
                    path,
                    number,
                    "not_whatsapp",
                    "the line does not begin like a message of a WhatsApp export, with "
                    "date, time and name. Remove the text before the first message.",
                )
            elif parts:
                parts.append(line)
            continue
        yield from _message(user, parts, mentions, reading)
        is_begun, parts = True, []
        user, text = _sender_and_text(beginning)
        if user:
            parts = [text]
        else:
            reading.skip("line_of_whatsapp")
    yield from _message(user, parts, mentions, reading)
    if not is_begun:
        raise errors.DataError(
            f"{path}: no line begins like a message of a WhatsApp export. Check `data.source`."
        )


def _sentences() -> automatic_lines.AutomaticLines:
    return automatic_lines.of_program("whatsapp")


def _is_placeholder(text: str) -> bool:
    """Checks if text with the mark of WhatsApp stands for a file, and is not a sentence."""
    plain = _INVISIBLE.sub("", text)
    if _PLACEHOLDER.search(plain[-_LONGEST_END:]) or _OMITTED.match(plain):
        return True
    is_sentence = _sentences().kind_of(plain, automatic_lines.NAMELESS, _NO_MEMBERS)
    return not is_sentence and len(plain.split()) <= _MAX_PLACEHOLDER_WORDS


def _sender_and_text(beginning: re.Match[str]) -> tuple[str, str]:
    """Returns the sender and the text of a line; ("", "") if the line is WhatsApp's."""
    said = _SENDER.match(beginning["rest"])
    name = _INVISIBLE.sub("", said["name"]).strip().lstrip("~").strip() if said else ""
    return (name, said["text"]) if said and name else ("", "")


def _senders(path: pathlib.Path) -> set[str]:
    """Returns the names of all senders. Bad lines are left to the reader of the messages."""
    if not any(b"@" in chunk for chunk in json_documents.read_chunks(path)):
        return set()
    texts = (_BLANKS.sub(" ", line) for _, line in lines.read_lines(path, ParserState("skip")))
    beginnings = (match for text in texts if (match := _BEGINNING.match(text)))
    return {_sender_and_text(beginning)[0] for beginning in beginnings}


def _message(
    user: str, lines: list[str], mentions: Mentions, reading: ParserState
) -> Iterator[Typed]:
    """Yields the message of a user, given its lines, unless it is WhatsApp's or has no text."""
    if not lines:
        return
    first, *later_lines = lines
    if len(lines) > 2 and _POLL.match(first) and _VOTES.match(lines[-1]):
        reading.skip("poll")
        return
    if _OMITTED.match(first) or (not later_lines and _UNMARKED.match(first)):
        first = ""
        reading.skip("omitted_media")
    elif first.startswith(("\u200e", "\u200f")):  # an iPhone's "image omitted", and its caption
        reading.skip("omitted_media" if _is_placeholder(first) else "line_of_whatsapp")
        first = ""
    elif not later_lines and _sentences().kind_of(first, user, _NO_MEMBERS):
        reading.skip("line_of_whatsapp")
        return
    lines_typed = [first, *later_lines]
    lines_typed[-1] = _EDITED.sub("", lines_typed[-1])
    text = mentions.without(" ".join(filter(None, lines_typed)))
    text = _INVISIBLE.sub("", text).strip()
    if text:
        yield Typed(0.0, user, clean_text(text))
