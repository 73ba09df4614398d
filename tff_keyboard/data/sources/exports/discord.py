"""Discord: the JSON of DiscordChatExporter, and the data package that Discord sends on request.

DiscordChatExporter writes a channel with all its members. The data package contains only the
messages of its owner, in a folder for each channel (`messages/c123/messages.json`, before 2024
`messages.csv`), so each channel counts as a client.
"""

import csv
import io
import pathlib
import re
from collections.abc import Iterator
from typing import Any

from tff_keyboard.data.sources import json_documents
from tff_keyboard.data.sources.exports.mentions import Mentions
from tff_keyboard.data.sources.messages import ParserState, Typed, clean_text
from tff_keyboard.data.sources.tables.columns import seconds_of
from tff_keyboard.storage import errors

TABLE_HEADER = "ID,Timestamp,Contents,Attachments"  # first line of `messages.csv`
_TYPED = ("Default", "Reply", "ThreadStarterMessage", "0", "19", None)
_EMOJI = re.compile(r":(\w{2,32}):")  # DiscordChatExporter's text for a custom emoji
_REFERENCES = re.compile(r"<(?:a?:\w+:|[@#][!&]?|/[^:<>]+:|t:)-?\d+(?::\w)?>")


def package_files(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the sorted files of a data package, given its folder or its folder `messages`."""
    patterns = (
        f"{above}*/messages.{end}" for above in ("", "*essages/") for end in ("json", "csv")
    )
    return sorted({path for pattern in patterns for path in folder.glob(pattern)})


def read_messages(
    path: pathlib.Path, reading: ParserState, *, bytes_before: int = 0
) -> Iterator[Typed]:
    """Yields the messages of users, without mentions and custom emoji.

    Skips and counts messages of bots and of Discord, and messages without text. Raises `DataError`
    if the file is not such a JSON file, or, if bad lines are errors, an entry is not a message.
    """
    is_table = path.suffix == ".csv"
    document = _rows(path) if is_table else json_documents.read_json(path, reading)
    if isinstance(document, dict) and isinstance(document.get("messages"), list):
        entries = document["messages"]
    elif isinstance(document, list):
        entries = document
    else:
        raise errors.DataError(
            f"{path}: is neither a JSON file of DiscordChatExporter nor messages.json of a data "
            "package. Check `data.source`."
        )
    mentions = Mentions(_names(entries))
    for entry in json_documents.message_objects(path, entries, reading):
        author = entry.get("author")
        if isinstance(author, dict):
            user, text, moment = author.get("id"), entry.get("content"), entry.get("timestamp")
            if author.get("isBot") or entry.get("type") not in _TYPED:
                reading.skip("bot_or_event")
                continue
        else:
            user = path.absolute().parent.name
            text, moment = entry.get("Contents"), entry.get("Timestamp")
        text = _REFERENCES.sub(" ", text) if isinstance(text, str) else ""
        text = mentions.without(_without_emoji(text, entry))
        if not isinstance(user, str | int) or not str(user).strip() or not text.strip():
            reading.skip("no_text")
            continue
        yield Typed(seconds_of(moment) or 0.0, clean_text(str(user)), clean_text(text))
    reading.on_position(bytes_before + path.stat().st_size)


def _names(entries: list[Any]) -> Iterator[object]:
    """Yields the names of authors, of their roles, and of mentioned users."""
    for entry in entries:
        if isinstance(entry, dict):
            author = entry.get("author")
            people = [author, *_objects(entry.get("mentions"))]
            for person in people:
                if isinstance(person, dict):
                    yield from (person.get("name"), person.get("nickname"))
                    yield from (role.get("name") for role in _objects(person.get("roles")))


def _objects(value: object) -> list[dict[str, Any]]:
    """Returns the JSON objects of a list; [] for another value."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _without_emoji(text: str, entry: dict[str, Any]) -> str:
    """Removes the names of the custom emoji that an entry lists."""
    emoji = _objects(entry.get("inlineEmojis"))
    listed = (item.get(key) for item in emoji for key in ("name", "code"))
    names = {name for name in listed if isinstance(name, str)}
    return _EMOJI.sub(lambda match: " " if match[1] in names else match[0], text) if emoji else text


def _rows(path: pathlib.Path) -> list[dict[str, str]] | None:
    """Returns the rows of `messages.csv`, or None for another table."""
    content = b"".join(json_documents.read_chunks(path)).decode("utf-8-sig", "replace")
    try:
        rows = list(csv.DictReader(io.StringIO(content, newline=""), strict=True))
    except csv.Error:
        raise errors.DataError(
            f"{path}: is not valid CSV. Copy it again from the data package."
        ) from None
    return rows if content.startswith(TABLE_HEADER) else None
