"""Facebook Messenger and Instagram: `message_1.json` of "Download your information" as JSON.

Meta writes each byte of UTF-8 as a separate character ("\u00c3\u00a9" for "é"). This module
reverses it.
"""

import pathlib
from collections.abc import Iterator

from tff_keyboard.data.sources import json_documents
from tff_keyboard.data.sources.messages import ParserState, Typed, clean_text
from tff_keyboard.data.sources.tables.columns import seconds_of
from tff_keyboard.storage import errors


def export_files(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the chats of an unpacked archive, or of one chat's folder, sorted."""
    inbox = "inbox/*/message_*.json"
    places = ("message_*.json", inbox, f"*/{inbox}", f"*/*/{inbox}")
    return sorted({path for place in places for path in folder.glob(place)})


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
        user, text = entry.get("sender_name"), entry.get("content")
        if not isinstance(user, str) or not isinstance(text, str) or entry.get("is_unsent"):
            reading.skip("no_text")
            continue
        user, text = clean_text(_from_bytes(user)), clean_text(_from_bytes(text))
        if not user or not text or "call_duration" in entry or "share" in entry:
            reading.skip("no_text")
            continue
        yield Typed(seconds_of(entry.get("timestamp_ms")) or 0.0, user, text)
    reading.on_position(bytes_before + path.stat().st_size)


def _from_bytes(text: str) -> str:
    """Decodes text whose characters are bytes of UTF-8. Returns other text unchanged."""
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text
