"""Telegram Desktop's "Export chat history" as machine-readable JSON: `result.json`.

A file contains one chat, or the chats of an account in `chats.list`. Format:
https://core.telegram.org/import-export
"""

import itertools
import pathlib
from collections.abc import Iterable, Iterator

from tff_keyboard.data.sources import json_documents
from tff_keyboard.data.sources.exports.mentions import Mentions
from tff_keyboard.data.sources.messages import ParserState, Typed, clean_text
from tff_keyboard.data.sources.tables.columns import seconds_of
from tff_keyboard.storage import errors

# Telegram's own accounts: news and login codes, and the account that shows replies.
_SERVICES = ("user777000", "user42777", "user1271266957", 777000, 42777)
# Types of formatted parts: commands for bots ("/start"), which are tapped, and mentions.
_NOT_TYPED = ("bot_command", "mention", "mention_name")


def export_files(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the files `result.json` of one export's folder, or of a folder with several exports.

    Raises:
      DataError: If the folder contains an export as web pages, which is Telegram's default.
    """
    exports = sorted({*folder.glob("result.json"), *folder.glob("*/result.json")})
    if not exports and any(folder.glob("messages*.html")):
        raise errors.DataError(
            f"{folder}: is a Telegram export in HTML. Export the chat again, in the format "
            '"machine-readable JSON".'
        )
    return exports


def read_messages(
    path: pathlib.Path, reading: ParserState, *, bytes_before: int = 0
) -> Iterator[Typed]:
    """Yields the messages of users. A client is a `from_id`.

    Skips and counts events of the chat, forwarded messages, messages of bots, and messages without
    text. Raises `DataError` if the file is not such a JSON file, or, if bad lines are errors, an
    entry is not a message.
    """
    document = json_documents.read_json(path, reading)
    chats = _chats(document)
    if chats is None:
        raise errors.DataError(
            f"{path}: is not Telegram's result.json. Export the chat again, in the format "
            '"machine-readable JSON".'
        )
    entries = itertools.chain.from_iterable(_without_bot(chat, reading) for chat in chats)
    mentions = Mentions(_names(chats))
    bots = set(_bots(chats))
    for entry in json_documents.message_objects(path, entries, reading):
        if entry.get("type") != "message":
            reading.skip("event_of_the_chat")
            continue
        if "forwarded_from" in entry or "via_bot" in entry:
            reading.skip("forwarded")
            continue
        user = entry.get("from_id") or entry.get("from")
        if isinstance(user, str | int) and (user in bots or user in _SERVICES):
            reading.skip("bot")
            continue
        text = mentions.without(_text(entry.get("text")))
        if not isinstance(user, str | int) or not text.strip():
            reading.skip("no_text")
            continue
        time = seconds_of(entry.get("date_unixtime")) or seconds_of(entry.get("date"))
        yield Typed(time or 0.0, clean_text(str(user)), clean_text(text))
    reading.on_position(bytes_before + path.stat().st_size)


def _chats(document: object) -> list[dict[str, object]] | None:
    """Returns the chats of a document, or None if it is not an export."""
    if not isinstance(document, dict):
        return None
    if isinstance(document.get("messages"), list):
        return [document]
    chats: list[dict[str, object]] | None = None
    for name in ("chats", "left_chats"):
        part = document.get(name)
        if isinstance(part, dict) and isinstance(part.get("list"), list):
            chats = (chats or []) + [chat for chat in part["list"] if isinstance(chat, dict)]
    return chats


def _without_bot(chat: dict[str, object], reading: ParserState) -> Iterator[object]:
    """Yields the messages of a chat. Skips and counts messages that a bot wrote to the user."""
    messages = chat.get("messages")
    bot = f"user{chat.get('id')}" if chat.get("type") == "bot_chat" else ""
    for entry in messages if isinstance(messages, list) else []:
        if bot and isinstance(entry, dict) and entry.get("from_id") == bot:
            reading.skip("bot")
        else:
            yield entry


def _bots(chats: Iterable[dict[str, object]]) -> Iterator[str | int]:
    """Yields the senders of messages with buttons, which only bots can send."""
    for entry in _entries(chats):
        user = entry.get("from_id")
        has_buttons = "inline_bot_buttons" in entry
        is_passed_on = "via_bot" in entry or "forwarded_from" in entry
        if has_buttons and not is_passed_on and isinstance(user, str | int):
            yield user


def _names(chats: Iterable[dict[str, object]]) -> Iterator[object]:
    """Yields the names of the senders."""
    for entry in _entries(chats):
        yield entry.get("from")


def _entries(chats: Iterable[dict[str, object]]) -> Iterator[dict[str, object]]:
    """Yields the messages of all chats that are JSON objects."""
    for chat in chats:
        messages = chat.get("messages")
        for entry in messages if isinstance(messages, list) else []:
            if isinstance(entry, dict):
                yield entry


def _text(text: object) -> str:
    """Returns the plain text of a string, or of a list of strings and formatted parts.

    Leaves out the parts of the types `_NOT_TYPED`.
    """
    if isinstance(text, list):
        objects = (part if isinstance(part, dict) else {"text": part} for part in text)
        parts = (part.get("text") for part in objects if part.get("type") not in _NOT_TYPED)
        return "".join(part for part in parts if isinstance(part, str))
    return text if isinstance(text, str) else ""
