"""Facebook Messenger and Instagram: `message_1.json` of "Download your information" as JSON.

Meta writes each byte of UTF-8 as a separate character ("\u00c3\u00a9" for "é"). This module
reverses it. Chats with end-to-end encryption come in a separate archive, with other keys and with
text as it was typed.
"""

import pathlib
from collections.abc import Iterator

from tff_keyboard.data.sources import json_documents
from tff_keyboard.data.sources.messages import ParserState, Typed, clean_text
from tff_keyboard.data.sources.tables.columns import seconds_of
from tff_keyboard.storage import errors

_USUAL = ("sender_name", "content", "timestamp_ms")
_ENCRYPTED = ("senderName", "text", "timestamp")
_OTHERS = {"call_duration", "share"}  # keys of calls, and of links with their description
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

    Skips and counts messages without text, such as photos, calls and unsent messages. Raises
    `DataError` if the file is not such a JSON file, or, if bad lines are errors, an entry is not a
    message.
    """
    document = json_documents.read_json(path)
    entries = document.get("messages") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise errors.DataError(
            f"{path}: is not message_1.json of Messenger or Instagram. Download your information "
            "again, as JSON."
        )
    for entry in json_documents.message_objects(path, entries, reading):
        is_encrypted = "senderName" in entry
        user, text, time = (entry.get(key) for key in (_ENCRYPTED if is_encrypted else _USUAL))
        is_unsent = entry.get("is_unsent") or entry.get("isUnsent")
        is_typed = (
            entry.get("type", "text") == "text" if is_encrypted else not _OTHERS & entry.keys()
        )
        if not isinstance(user, str) or not isinstance(text, str) or is_unsent or not is_typed:
            reading.skip("no_text")
            continue
        if not is_encrypted:
            user, text = _from_bytes(user), _from_bytes(text)
        user, text = clean_text(user), clean_text(text.removesuffix(_EDITED))
        if not user or not text:
            reading.skip("no_text")
            continue
        yield Typed(seconds_of(time) or 0.0, user, text)
    reading.on_position(bytes_before + path.stat().st_size)


def _is_encrypted_chat(path: pathlib.Path) -> bool:
    """Checks if a file begins like a chat of the archive of encrypted chats."""
    try:
        head = next(json_documents.read_chunks(path), b"")
    except errors.DataError:
        return False
    return b'"threadName"' in head and b'"participants"' in head


def _from_bytes(text: str) -> str:
    """Decodes text whose characters are bytes of UTF-8. Returns other text unchanged."""
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text
