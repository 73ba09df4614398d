"""Mentions: names after "@" that the program inserted are removed by one rule for all readers."""

import json
import time

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard.data.sources import formats
from tff_keyboard.data.sources.exports.mentions import Mentions
from tff_keyboard.data.sources.messages import ParserState

NAMES = ["Anna Lee", "User One", "ben_2", "Émile", "J. R."]

MENTIONS = [
    ("hello @User One! how is it", "hello ! how is it"),
    ("and @ben_2", "and"),
    ("@Anna Lee see you", "see you"),
    ("@anna see you", "see you"),
    ("(@Anna Lee)", "( )"),
    ("@Émile, @J. R. and @Anna", ", and"),
    ("@everyone come here", "come here"),
    ("@\u2068Zoe Zebra\u2069 come", "come"),
    ("ask @6591234567 again", "ask again"),
]
TYPED = [
    "mail me at ben@anna.org",
    "anna.lee@User One",
    "meet @home or @ noon",
    "Anna Lee and ben_2 are here",
    "@annabelle and @ben_23",
    "i am @anna_b",
    "5 @ 3 euro, @12 each",
    "a@@b @",
]


def whatsapp(text):
    senders = "".join(f"31.12.23, 21:42 - {name}: .\n" for name in NAMES)
    return f"31.12.23, 21:41 - Anna Lee: {text}\n{senders}"


def telegram(text):
    senders = [{"type": "message", "from": name, "from_id": name, "text": ""} for name in NAMES]
    message = {"type": "message", "from": "Anna Lee", "from_id": "user1", "text": text}
    return json.dumps({"messages": [message, *senders]})


def discord(text):
    mentioned = [{"id": "1", "name": name, "nickname": "x"} for name in NAMES[:3]]
    author = {"id": "7", "name": "Émile", "nickname": "é", "roles": [{"name": "J. R."}]}
    message = {"type": "Default", "content": text, "author": author, "mentions": mentioned}
    return json.dumps({"channel": {}, "messages": [message]})


def messenger(text):
    def as_bytes(part):
        return part.encode().decode("latin-1")

    message = {"sender_name": "Anna Lee", "content": as_bytes(text)}
    people = [{"name": as_bytes(name)} for name in NAMES]
    return json.dumps({"participants": people, "messages": [message]})


def slack(text):
    keys = ("real_name", "display_name", "name")
    profiles = [{"user_profile": {keys[n % 3]: name}} for n, name in enumerate(NAMES)]
    return json.dumps([{"user": "U1", "text": text, "user_profile": {}}, *profiles])


WRITERS = [
    ("whatsapp", whatsapp),
    ("telegram", telegram),
    ("discord", discord),
    ("messenger", messenger),
    ("slack", slack),
]


def first_text(tmp_path, source, content):
    path = tmp_path / "export"
    path.write_text(content, "utf-8")
    return next(formats.EXPORTS[source](path, ParserState())).text


@pytest.mark.parametrize(("source", "write"), WRITERS)
@pytest.mark.parametrize(("text", "expected"), MENTIONS)
def test_mentions_are_removed(tmp_path, source, write, text, expected):
    assert first_text(tmp_path, source, write(text)).split() == expected.split()


@pytest.mark.parametrize(("source", "write"), WRITERS)
@pytest.mark.parametrize("text", TYPED)
def test_other_signs_stay(tmp_path, source, write, text):
    assert first_text(tmp_path, source, write(text)) == text


def test_formatted_mentions_of_telegram(tmp_path):
    parts = [
        "ask ",
        {"type": "mention", "text": "@zoe_z"},
        " or ",
        {"type": "mention_name", "text": "Zoe", "user_id": 7},
        {"type": "bold", "text": " now"},
    ]
    assert first_text(tmp_path, "telegram", telegram(parts)) == "ask  or  now"


def test_custom_emoji_of_discord(tmp_path):
    emoji = [{"id": "5", "name": "party", "code": "party"}]
    message = {"content": "so :party: nice :cake:", "author": {"id": "7"}, "inlineEmojis": emoji}
    content = json.dumps({"channel": {}, "messages": [message]})
    assert first_text(tmp_path, "discord", content) == "so   nice :cake:"


@hypothesis.given(
    st.lists(st.sampled_from([*NAMES, "@", "@Anna", " ", "a", "ß", "İ", "\u2068", "\u2069", "!"]))
)
@examples(300)
def test_removes_only_mentions(parts):
    """What remains is the text without some names, and no listed name follows a sign."""
    text = " ".join(parts)
    mentions = Mentions(NAMES)
    remaining = mentions.without(text)
    assert len(remaining) <= len(text)
    position = 0
    for character in remaining:
        if character != " ":
            position = text.index(character, position) + 1
    if "@" not in text:
        assert remaining == text


@pytest.mark.parametrize(
    "text",
    ["@" * 1_000_000, "@a " * 300_000, "@\u2068" * 500_000, "@1" * 500_000, "@" + "1" * 1_000_000],
    ids=["signs", "words", "marks", "short", "digits"],
)
def test_long_text_takes_linear_time(text):
    mentions = Mentions([*NAMES, *(f"{'n' * (n % 100)} {n}" for n in range(5000)), None, 3, ""])
    begun = time.process_time()
    mentions.without(text)
    assert time.process_time() - begun < 5
