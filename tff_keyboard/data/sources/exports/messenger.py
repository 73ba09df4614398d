"""Facebook Messenger and Instagram: `message_1.json` of "Download your information" as JSON.

Meta writes each byte of UTF-8 as a separate character ("\u00c3\u00a9" for "é"). This module
reverses it. Chats with end-to-end encryption come in a separate archive, with other keys and with
text as it was typed.

Meta writes reactions, attachments, calls and changes of the group as messages of a member, in the
language of the account. `type` (in archives before 2022) and keys mark some of them; the others are
recognised by their sentences (`automatic_lines.py`).
"""

import pathlib
from collections.abc import Iterator
from typing import Any

from tff_keyboard.data.sources import json_documents
from tff_keyboard.data.sources.exports import automatic_lines
from tff_keyboard.data.sources.exports.mentions import Mentions
from tff_keyboard.data.sources.messages import ParserState, Typed, clean_text
from tff_keyboard.data.sources.tables.columns import seconds_of
from tff_keyboard.storage import errors

_USUAL = ("sender_name", "content", "timestamp_ms")
_ENCRYPTED = ("senderName", "text", "timestamp")
# Values of `type` that users typed. Others are "Subscribe", "Unsubscribe", "Call" and "Payment".
_TYPES = (None, "Generic", "Share")
_EVENT_KEYS = {"call_duration", "users"}  # of calls, and of members who come and go
_COUNTS = {"reaction": "reaction", "event": "line_of_messenger"}
_EDITED = " (edited)"  # Instagram's mark


def export_files(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the chats of an unpacked archive, or of one chat's folder, sorted."""
    inbox = "inbox/*/message_*.json"
    patterns = ("message_*.json", inbox, f"*/{inbox}", f"*/*/{inbox}")
    chats = {path for pattern in patterns for path in folder.glob(pattern)}
    return sorted(chats) or sorted(filter(_is_encrypted_chat, folder.glob("*.json")))


def read_messages(
    path: pathlib.Path, reading: ParserState, *, bytes_before: int = 0
) -> Iterator[Typed]:
    """Yields the messages of users. A client is a sender's name.

    Skips and counts reactions, lines of Messenger itself, and messages without text, such as
    photos, links and unsent messages. Raises `DataError` if the file is not such a JSON file, or,
    if bad lines are errors, an entry is not a message.
    """
    document = json_documents.read_json(path, reading)
    entries = document.get("messages") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(entries, list):
        raise errors.DataError(
            f"{path}: is not message_1.json of Messenger or Instagram. Download your information "
            "again, as JSON."
        )
    sentences = automatic_lines.of_program("messenger")
    names = list(_members(document, entries))
    members, mentions = automatic_lines.Members(names), Mentions(names)
    for entry in json_documents.message_objects(path, entries, reading):
        user, text, time = _fields(entry)
        is_unsent = entry.get("is_unsent") or entry.get("isUnsent")
        if not user or not text or is_unsent or "share" in entry:
            reading.skip("no_text")
        elif _is_event(entry):
            reading.skip("line_of_messenger")
        elif kind := sentences.kind_of(text, user, members):
            reading.skip(_COUNTS[kind])
        elif typed := clean_text(mentions.without(text)):
            yield Typed(seconds_of(time) or 0.0, user, typed)
        else:
            reading.skip("no_text")
    reading.on_position(bytes_before + path.stat().st_size)


def _is_encrypted_chat(path: pathlib.Path) -> bool:
    """Checks if a file begins like a chat of the archive of encrypted chats."""
    try:
        head = next(json_documents.read_chunks(path), b"")
    except errors.DataError:
        return False
    return b'"threadName"' in head and b'"participants"' in head


def _members(document: dict[str, Any], entries: list[object]) -> Iterator[str]:
    """Yields the names of the members of a chat, and of all senders, which may have left it."""
    participants = document.get("participants")
    for person in participants if isinstance(participants, list) else []:
        name = person.get("name") if isinstance(person, dict) else person
        if isinstance(name, str):
            yield clean_text(_from_bytes(name))
    yield from {_fields(entry)[0] for entry in entries if isinstance(entry, dict)}


def _fields(entry: dict[str, Any]) -> tuple[str, str, Any]:
    """Returns the sender, the text and the time of a message; "" if it has none."""
    is_encrypted = "senderName" in entry
    user, text, time = (entry.get(key) for key in (_ENCRYPTED if is_encrypted else _USUAL))
    if is_encrypted and entry.get("type", "text") != "text":
        text = ""
    user, text = (value if isinstance(value, str) else "" for value in (user, text))
    if not is_encrypted:
        user, text = _from_bytes(user), _from_bytes(text)
    return clean_text(user), clean_text(text.removesuffix(_EDITED)), time


def _is_event(entry: dict[str, Any]) -> bool:
    """Checks if keys of a message say that a user did something else than type."""
    if "senderName" in entry:
        return False
    return bool(_EVENT_KEYS & entry.keys()) or entry.get("type") not in _TYPES


def _from_bytes(text: str) -> str:
    """Decodes text whose characters are bytes of UTF-8. Returns other text unchanged."""
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text
