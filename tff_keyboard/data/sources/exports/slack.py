"""A Slack workspace export: a folder for each channel, with a JSON file for each day.

Format: https://slack.com/help/articles/220556107-How-to-read-Slack-data-exports
"""

import html
import pathlib
import re
from collections.abc import Iterator

from tff_keyboard.data.sources import json_documents
from tff_keyboard.data.sources.exports.mentions import Mentions
from tff_keyboard.data.sources.messages import ParserState, Typed, clean_text
from tff_keyboard.data.sources.tables.columns import seconds_of
from tff_keyboard.storage import errors

_DAY = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*.json*"
_TYPED_SUBTYPES = (None, "thread_broadcast", "me_message", "file_share")
_LINK = re.compile(r"<(?P<target>[^<>|]*)(?:\|[^<>]*)?>")
# What Slack wrote before a comment on a file until 2018: "<@U1> uploaded a file: <https://...|a>"
_UPLOAD = re.compile(r"\s*(?:<@[^<>]*> )?(?:uploaded|shared) a file: <[^<>]*>(?: and commented: )?")
_EMOJI = re.compile(r"(?<![\w:]):[\w+'-]+:(?::skin-tone-\d:)?(?!\w)")  # `:+1::skin-tone-2:`


def export_files(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the files of all days of all channels, sorted; [] if `folder` is not an export."""
    return sorted(folder.glob(f"*/{_DAY}"))


def read_messages(
    path: pathlib.Path, reading: ParserState, *, bytes_before: int = 0
) -> Iterator[Typed]:
    """Yields the messages of users on one day. A client is a user id.

    Removes the labels of links, the names of emoji (`:tada:`), and the references to members and
    channels. Skips and counts messages of bots and of Slack, and messages without text. Raises
    `DataError` if the file is not such a JSON file, or, if bad lines are errors, an entry is not a
    message.
    """
    document = json_documents.read_json(path, reading)
    if not isinstance(document, list):
        raise errors.DataError(
            f"{path}: is not a file of a Slack export. Pass the folder of the unpacked archive."
        )
    mentions = Mentions(_names(document))
    for entry in json_documents.message_objects(path, document, reading):
        subtype, user, text = entry.get("subtype"), entry.get("user"), entry.get("text")
        if entry.get("bot_id") or user == "USLACKBOT" or subtype not in _TYPED_SUBTYPES:
            reading.skip("bot_or_event")
            continue
        text = text if isinstance(text, str) else ""
        if subtype == "file_share":
            text = _UPLOAD.sub("", text, count=1) if _UPLOAD.match(text) else text
        text = _EMOJI.sub(" ", text)
        text = mentions.without(html.unescape(_LINK.sub(_link, text)))
        if not isinstance(user, str) or not user.strip() or not text.strip():
            reading.skip("no_text")
            continue
        yield Typed(seconds_of(entry.get("ts")) or 0.0, clean_text(user), clean_text(text))
    reading.on_position(bytes_before + path.stat().st_size)


def _names(entries: list[object]) -> Iterator[object]:
    """Yields the names in the profiles of the senders."""
    for entry in entries:
        profile = entry.get("user_profile") if isinstance(entry, dict) else None
        if isinstance(profile, dict):
            yield from (profile.get(key) for key in ("real_name", "display_name", "name"))


def _link(match: re.Match[str]) -> str:
    """Returns the address of a link, or a space for a member or channel."""
    target = match["target"].removeprefix("mailto:").removeprefix("tel:")
    return " " if target[:1] in ("@", "#", "!") else target
