"""The XML of the Android app SMS Backup & Restore.

    <smses count="2"><sms address="+65 5550" date="1704030065000" type="1" body="see you" .../>
    <mms msg_box="2" date=... ><parts><part ct="text/plain" text="on my way"/></parts></mms></smses>

Format: https://www.synctech.com.au/sms-backup-restore/fields-in-xml-backup-files/. The app writes
emoji as two references to halves of a surrogate pair (`&#55357;&#56832;`), which XML forbids. They
are joined before the parser reads them.
"""

import pathlib
import re
import xml.parsers.expat
from collections.abc import Iterator

from tff_keyboard.data.sources import json_documents
from tff_keyboard.data.sources.exports import automatic_lines
from tff_keyboard.data.sources.messages import ParserState, Typed, clean_text
from tff_keyboard.data.sources.tables.columns import seconds_of
from tff_keyboard.storage import errors

OWNER = "me"  # the client of all sent messages
_RECEIVED, _SENT = "1", "2"
_FROM = "137"  # PduHeaders.FROM, the type of the address that sent an MMS
# References to code points: first half of a surrogate pair, second half, any code point.
_HIGH = rb"&#(?:55(?:29[6-9]|[3-9]\d\d)|56(?:[0-2]\d\d|3[01]\d)|x[dD][89abAB][0-9A-Fa-f]{2});"
_LOW = (
    rb"&#(?:56(?:3[2-9]\d|[4-9]\d\d)|57(?:[0-2]\d\d|3[0-3]\d|34[0-3])|x[dD][c-fC-F][0-9A-Fa-f]{2});"
)
_ANY = rb"&#(?:\d{1,8}|x[0-9A-Fa-f]{1,8});"
_REFERENCES = re.compile(rb"%b%b|%b" % (_HIGH, _LOW, _ANY))
_UNFINISHED = re.compile(rb"(?:%b)?(?:&(?:#x?[0-9A-Fa-f]{0,8})?)?\Z" % _HIGH)
_LONGEST_UNFINISHED = 24  # bytes
_PERSON = re.compile(r"\+?[0-9 ()./-]{7,}\Z|[^@\s]+@[^@\s]+\Z")

_MAX_TAG_BYTES = 50_000_000  # of one tag, which may hold a picture of an MMS

_NO_MEMBERS = automatic_lines.Members()  # no sentence begins with a name


class _Handler:
    """Collects the messages of one chunk of the file."""

    def __init__(self, path: pathlib.Path, reading: ParserState):
        self.typed: list[Typed] = []
        self.is_backup = False
        self._path, self._reading = path, reading
        self._sentences = automatic_lines.of_program("sms")
        self._mms: dict[str, str] | None = None
        self._sender = ""
        self._parts: list[str] = []

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name in ("smses", "sms", "mms"):
            self.is_backup = True
        if name == "sms":
            self._add(attributes, attributes.get("type"), attributes.get("body", ""))
        elif name == "mms":
            self._mms, self._sender, self._parts = attributes, "", []
        elif name == "part" and attributes.get("ct") == "text/plain":
            self._parts.append(attributes.get("text", ""))
        elif name == "addr" and attributes.get("type") == _FROM:
            self._sender = attributes.get("address", "")

    def end(self, name: str) -> None:
        if name == "mms" and self._mms is not None:
            attributes = dict(self._mms)
            if self._sender and self._sender != "insert-address-token":
                attributes["address"] = self._sender
            text = " ".join(part for part in self._parts if part != "null")
            self._add(attributes, attributes.get("msg_box"), text)
            self._mms = None

    def entity(self, *_: object) -> None:
        raise errors.DataError(
            f"{self._path}: declares XML entities, which backups never contain. Export it again."
        )

    def _add(self, attributes: dict[str, str], box: str | None, text: str) -> None:
        """Adds one message. `box` is the message box: received or sent."""
        if not text.strip() or text == "null":
            self._reading.skip("no_text")
            return
        if box == _SENT:
            user = OWNER
        elif box == _RECEIVED:
            user = attributes.get("address", "").strip()
            if not _PERSON.match(user):  # a name or a short number: banks, codes, offers
                self._reading.skip("from_a_service")
                return
            user = user if "@" in user else re.sub(r"[ ()./-]", "", user)
        else:  # drafts and unsent messages
            self._reading.skip("never_sent")
            return
        if self._sentences.kind_of(text, user, _NO_MEMBERS):
            self._reading.skip("reaction")
            return
        time = seconds_of(attributes.get("date")) or 0.0
        self.typed.append(Typed(time, clean_text(user), clean_text(text)))


def read_messages(
    path: pathlib.Path, reading: ParserState, *, bytes_before: int = 0
) -> Iterator[Typed]:
    """Yields the text messages of a backup: received ones by number, sent ones as `OWNER`.

    Skips and counts drafts, messages without text, reactions (such as `Liked "..."`, which iPhones
    send to other phones), and messages of services, whose sender is a name or a number with fewer
    than seven digits. Raises `DataError` if the file is missing, damaged or
    not a backup.
    """
    handler = _Handler(path, reading)
    parser = xml.parsers.expat.ParserCreate()
    parser.StartElementHandler = handler.start
    parser.EndElementHandler = handler.end
    parser.EntityDeclHandler = handler.entity
    bytes_read = 0
    try:
        chunks: list[bytes] = []
        chunk_bytes = unfinished = 0
        for chunk in _joined_surrogates(json_documents.read_chunks(path)):
            chunks.append(chunk)
            chunk_bytes += len(chunk)
            bytes_read += len(chunk)
            # Expat reads an unfinished tag from its beginning each time, so it gets as much again.
            if chunk_bytes < unfinished:
                continue
            parser.Parse(b"".join(chunks), False)
            yield from handler.typed
            handler.typed.clear()
            chunks, chunk_bytes, unfinished = [], 0, bytes_read - max(parser.CurrentByteIndex, 0)
            if unfinished > _MAX_TAG_BYTES:
                raise errors.DataError(
                    f"{path}:{parser.CurrentLineNumber}: a tag has more than "
                    f"{_MAX_TAG_BYTES / 1e6:.0f} MB. Export the messages without pictures."
                )
            reading.on_position(bytes_before + min(bytes_read, path.stat().st_size))
        parser.Parse(b"".join(chunks), True)
        yield from handler.typed
    except errors.DataError:  # `DataError` is a `ValueError`
        raise
    except (xml.parsers.expat.ExpatError, ValueError, LookupError) as error:
        line = getattr(error, "lineno", parser.CurrentLineNumber)
        raise errors.DataError(
            f"{path}:{line}: the file is not valid XML from here on. Copy or export it again."
        ) from None
    if not handler.is_backup:
        raise errors.DataError(
            f"{path}: is not a backup of SMS Backup & Restore: it has no element `smses`. Export "
            "the messages with that app, or convert them to user<TAB>text."
        )


def _joined_surrogates(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yields the chunks with surrogate pairs joined, and without characters that XML forbids."""
    held_back = b""
    for chunk in chunks:
        content = held_back + chunk
        unfinished = _UNFINISHED.search(content, max(0, len(content) - _LONGEST_UNFINISHED))
        held_back = unfinished.group() if unfinished else b""
        yield _REFERENCES.sub(_reference, content[: len(content) - len(held_back)])
    if held_back:
        yield _REFERENCES.sub(_reference, held_back)


def _reference(match: re.Match[bytes]) -> bytes:
    """Returns one valid character reference for a reference or the two of a surrogate pair."""
    codes = [
        int(text[1:], 16) if text.startswith(b"x") else int(text)
        for text in match.group()[2:-1].split(b";&#")
    ]
    if len(codes) == 2:
        codes = [0x10000 + ((codes[0] - 0xD800) << 10) + codes[1] - 0xDC00]
    return b"&#%d;" % (codes[0] if _is_xml(codes[0]) else 0xFFFD)


def _is_xml(code: int) -> bool:
    return (
        code in (9, 10, 13)
        or 0x20 <= code < 0xD800
        or 0xE000 <= code < 0xFFFE
        or (0x10000 <= code < 0x110000)
    )
