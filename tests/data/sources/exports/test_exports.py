"""Exported chats: the messages of users are read, and no other text."""

import gzip
import html
import json
import re
import types
import xml.parsers.expat
from xml.etree import ElementTree

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.support import exported_chats
from tests.support.damage import damaged, damaged_json, is_one_line
from tests.support.examples import examples
from tests.support.own_seconds import own_seconds
from tff_keyboard.data.sources import formats, json_documents
from tff_keyboard.data.sources.exports import sms_backup, whatsapp
from tff_keyboard.data.sources.messages import ParserState, clean_text
from tff_keyboard.data.sources.tables.columns import ColumnOptions
from tff_keyboard.storage.errors import DataError, UserError


def read_file(source, path, on_bad_line="error"):
    """Returns `(user, text)` in the order of the file, and the counts."""
    reading = ParserState(on_bad_line)
    if source in formats.EXPORTS:
        actual = list(formats.EXPORTS[source](path, reading))
    else:
        actual = list(formats.TABLES[source](path, reading, ColumnOptions()))
    return [(user, text) for _, user, text in actual], dict(reading.skipped)


def read(directory, source, content, name="export", on_bad_line="error"):
    path = directory / name
    if not isinstance(content, str | bytes):
        content = json.dumps(content)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_file(source, path, on_bad_line)


def test_whatsapp_of_android(tmp_path):
    actual, skipped = read(tmp_path, "whatsapp", exported_chats.ANDROID)
    assert actual == [
        ("Anna", "happy new year everyone and the best for all of you see you on monday"),
        ("+65 5550 1234", "thanks: same to you"),
        ("Ben", "the fireworks from our roof"),
        ("Anna", "that is so nice"),
    ]
    assert skipped == {"line_of_whatsapp": 4, "omitted_media": 2, "blank_line": 1}


def test_whatsapp_of_an_iphone(tmp_path):
    actual, skipped = read(tmp_path, "whatsapp", gzip.compress(exported_chats.IPHONE.encode()))
    assert actual == [
        ("Anna", "happy new year everyone and the best for all of you"),
        ("Cleo", "thanks: same to you"),
        ("Ben", "see you soon"),
    ]
    assert skipped == {"line_of_whatsapp": 1, "omitted_media": 1}


@pytest.mark.parametrize(
    "stamp",
    [
        "12/31/23, 9:41 PM - ",
        "12/31/23, 9:41\u202fPM - ",
        "31/12/2023, 21:41 - ",
        "31/12/2023 21:41 - ",
        "31.12.23, 21:41 - ",
        "31.12.23, 21:41 Uhr - ",
        "31-12-2023 21:41 - ",
        "2023-12-31, 9:41 p. m. - ",
        "2023/12/31 21:41 - ",
        "31/12/23, 9.41 PM - ",
        "2023년 12월 31일 오후 9:41 - ",
        "٣١/١٢/٢٠٢٣، ٩:٤١ م - ",
        "[12/31/23, 9:41:03 PM] ",
        "[31.12.23, 21:41:03] ",
        "\u200e[2023-12-31, 21:41:03] ",
        "31/12/17 21:41:05: ",
    ],
)
def test_dates_of_other_languages(tmp_path, stamp):
    actual, _ = read(tmp_path, "whatsapp", f"{stamp}Anna: hello\nagain\n{stamp}Ben: bye\n")
    assert actual == [("Anna", "hello again"), ("Ben", "bye")]


@pytest.mark.parametrize(
    "line", ["anna\thello", "12:30 - lunch: soup", "12/31 is the day - yes: it"]
)
def test_other_lines_do_not_begin_a_message(line):
    assert not whatsapp.is_beginning(line)


def test_whatsapp_with_something_before(tmp_path):
    content = f"zebra\n{exported_chats.ANDROID}"
    with pytest.raises(DataError, match=":1: the line does not begin like a message") as caught:
        read(tmp_path, "whatsapp", content)
    assert "zebra" not in str(caught.value)
    actual, skipped = read(tmp_path, "whatsapp", content, on_bad_line="skip")
    assert (len(actual), skipped["not_whatsapp"]) == (4, 1)
    with pytest.raises(DataError, match="no line begins like a message"):
        read(tmp_path, "whatsapp", "zebra\n", on_bad_line="skip")


def _stamp_of(draw):
    """Returns a date and time as some language writes them, between brackets or before a dash."""
    digits = str.maketrans("0123456789", draw(st.sampled_from(["0123456789", "٠١٢٣٤٥٦٧٨٩"])))
    mark = draw(st.sampled_from(["", "\u200f", "\u200e"]))
    separator = draw(st.sampled_from([".", "/", "-", ". ", f"{mark}/"]))
    date = separator.join(draw(st.sampled_from([("31", "12", "2023"), ("2023", "12", "31")])))
    end = draw(st.sampled_from(["", ",", "،", f"،{mark}", " à", " г.,"]))
    time = draw(st.sampled_from(["9:41", "21.41", "21:41:05", "21 h 41", "21 h 41 min 05 s"]))
    half = draw(st.sampled_from(["", " PM", "\u202fp. m.", " μ.μ.", " م", " முற்பகல்"]))
    stamp = f"{mark}{date}{end} {time}{half}".translate(digits)
    return draw(st.sampled_from([f"[{stamp}] ", f"{stamp} - "]))


@hypothesis.given(st.composite(_stamp_of)())
@examples(200)
def test_any_date_begins_a_message(tmp_path_factory, stamp):
    """mtln/chat-export #28 and #30, open-chat-studio #221, rwhatsapp #8, whats-reader #78."""
    directory = tmp_path_factory.mktemp("dates")
    actual, _ = read(directory, "whatsapp", f"{stamp}Anna: hello\nagain\n{stamp}Ben: bye\n")
    assert actual == [("Anna", "hello again"), ("Ben", "bye")]


@pytest.mark.parametrize(
    "line",
    [
        "\u200f" * 99_999 + "1/1/1" + "\u200f" * 99_999 + "9:41" + "\u200f" * 99_999,
        "[" + "\u200f" * 99_999 + "1" + "\u200f" * 99_999 + "/1/1 9:41",
        "1/1/1 " + "ab" * 99_999,
        "1/1/1, 9:41 " + "a " * 99_999,
    ],
)
def test_long_lines_take_linear_time(line):
    with own_seconds() as seconds:
        whatsapp.is_beginning(line)
        assert seconds() < 1


def test_placeholders_that_lost_their_mark(tmp_path):
    """Editors and mail programs remove U+200E."""
    stamp = "[31/12/2023, 21:41:05] Anna: "
    placeholders = ["image omitted", "Contact card omitted", "Bild weggelassen", "audio omitido"]
    messages = ["I omitted it", "two words omitted here", "omitted", "Was hast du weggelassen"]
    content = "".join(f"{stamp}{text}\n" for text in [*placeholders, *messages])
    actual, skipped = read(tmp_path, "whatsapp", content)
    assert [text for _, text in actual] == messages
    assert skipped["omitted_media"] == len(placeholders)


@pytest.mark.parametrize("word", ["опущен", "omitted", "утelämnad", "weggelaten "])
def test_a_message_of_many_equal_words_takes_linear_time(tmp_path, word):
    text = "\u200e" + word * 10_000 + "!a"
    with own_seconds() as seconds:
        read(tmp_path, "whatsapp", f"12/31/23, 9:41 PM - Anna: {text}\n")
        assert seconds() < 1


NAMES = st.text(
    st.characters(categories=["L", "N", "Zs"], include_characters="._'+"), min_size=1, max_size=12
).filter(lambda name: clean_text(name).strip("~ ") and name == name.strip())
LINES = st.text(st.characters(categories=["L", "N", "P", "So"]), min_size=1, max_size=20).filter(
    lambda line: "<" not in line and "(" not in line and line.lower() != "null"
)


@hypothesis.given(
    st.lists(st.tuples(NAMES, st.lists(LINES, min_size=1, max_size=3)), min_size=1, max_size=6),
    st.sampled_from(["12/31/23, 9:41 PM - ", "[31/12/2023, 21:41:05] "]),
)
@examples(200)
def test_any_chat_that_whatsapp_writes_is_read(tmp_path_factory, messages, stamp):
    content = "".join(f"{stamp}{name}: {chr(10).join(typed)}\n" for name, typed in messages)
    actual, _ = read(tmp_path_factory.mktemp("chat"), "whatsapp", content)
    assert [(user.split(), text) for user, text in actual] == [
        (name.split(), " ".join(typed)) for name, typed in messages
    ]


def test_telegram(tmp_path):
    actual, skipped = read(tmp_path, "telegram", exported_chats.TELEGRAM)
    assert actual == [("user2", "look at https://example.com please"), ("user1", "happy new year")]
    assert skipped == {"event_of_the_chat": 1, "forwarded": 1, "no_text": 1}
    account = {"about": "", "chats": {"about": "", "list": [exported_chats.TELEGRAM] * 2}}
    assert read(tmp_path, "telegram", account)[0] == actual * 2
    with pytest.raises(DataError, match=r"is not Telegram's result\.json"):
        read(tmp_path, "telegram", {"a": 1})
    with pytest.raises(DataError, match=":1: the message is not a JSON object"):
        read(tmp_path, "telegram", {"messages": [3]})


def test_sms_backup(tmp_path):
    actual, skipped = read(tmp_path, "sms_backup", exported_chats.SMS)
    assert actual == [
        ("+6555501234", "see you at 7 bring cake 😀"),
        (sms_backup.OWNER, "when do we meet"),
        ("+6555505678", "our new car"),
        (sms_backup.OWNER, "lovely"),
    ]
    assert skipped == {"from_a_service": 1, "never_sent": 1}


def test_rejects_xml_that_is_not_an_sms_backup(tmp_path):
    with pytest.raises(DataError, match="is not a backup of SMS Backup & Restore"):
        read(tmp_path, "sms_backup", "<a/>")
    with pytest.raises(DataError, match=":3: the file is not valid XML"):
        read(tmp_path, "sms_backup", "<smses>\n<sms/>\n<zebra")
    entities = '<!DOCTYPE a [<!ENTITY b "zebra">]><smses>&b;</smses>'
    with pytest.raises(DataError, match="declares XML entities"):
        read(tmp_path, "sms_backup", entities)


@pytest.mark.parametrize("source", ["telegram", "sms_backup"])
def test_a_gzip_bomb_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch, source):
    monkeypatch.setattr(json_documents, "_BOMB_BYTES", 1_000_000)
    with pytest.raises(DataError, match=r"unpacks to more than 1 MB, over 200 times"):
        read(tmp_path, source, gzip.compress(b" " * 3_000_000))
    text = json.dumps({"messages": [], "note": [str(n) for n in range(200_000)]}).encode()
    assert len(text) > 1_000_000
    if source == "telegram":
        assert read(tmp_path, source, gzip.compress(text))[0] == []


def test_a_long_tag_is_read_a_few_times_only(tmp_path, monkeypatch):
    """Expat begins an unfinished tag anew at each call, which would take quadratic time."""
    lengths = []

    class Parser:
        def __init__(self):
            object.__setattr__(self, "expat", xml.parsers.expat.ParserCreate())

        def __getattr__(self, name):
            return getattr(self.expat, name)

        def __setattr__(self, name, value):
            setattr(self.expat, name, value)

        def Parse(self, data, is_final):
            lengths.append(len(data))
            return self.expat.Parse(data, is_final)

    fake = types.SimpleNamespace(ParserCreate=Parser, ExpatError=xml.parsers.expat.ExpatError)
    parsers = types.SimpleNamespace(expat=fake)
    monkeypatch.setattr(sms_backup, "xml", types.SimpleNamespace(parsers=parsers))
    picture = '<mms><parts><part data="' + "A" * 6_000_000 + '"/></parts></mms>'
    sent = '<sms address="+6555501234" type="2" date="1" body="see you"/>'
    content = f"<smses>{sent}{picture}{sent * 3_000}</smses>"
    assert len(read(tmp_path, "sms_backup", content)[0]) == 3_001
    assert sum(lengths) >= len(content)
    assert len(lengths) < 20
    monkeypatch.setattr(sms_backup, "_MAX_TAG_BYTES", 1_000_000)
    with pytest.raises(DataError, match=r":1: a tag has more than 1 MB\. Export the messages"):
        read(tmp_path, "sms_backup", content)


@hypothesis.given(
    st.lists(
        st.sampled_from(
            ["😀", "&#55357;", "&#56832;", "&#xD83D;", "&#xDE00;", "&#0;", "&#65;", "a"]
        ),
        max_size=12,
    ),
    st.integers(1, 9),
)
@examples(200)
def test_halves_of_surrogate_pairs_wherever_chunks_end(pieces, size):
    """Compares with Python's UTF-16 codec."""
    content = "".join(pieces).encode()
    chunks = (content[at : at + size] for at in range(0, len(content), size))
    joined = b"".join(sms_backup._joined_surrogates(chunks)).decode()
    codes = {"&#55357;": "\ud83d", "&#56832;": "\ude00", "&#xD83D;": "\ud83d", "&#xDE00;": "\ude00"}
    text = "".join({**codes, "&#0;": "\ufffd", "&#65;": "A"}.get(piece, piece) for piece in pieces)
    expected = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert ElementTree.fromstring(f"<a>{joined}</a>").text == (expected or None)


def test_discord_channel_and_data_package(tmp_path):
    actual, skipped = read(tmp_path, "discord", exported_chats.DISCORD)
    assert [(user, text.split()) for user, text in actual] == [
        ("7", ["happy", "new", "year"]),
        ("8", ["same", "to", "you"]),
    ]
    assert skipped == {"bot_or_event": 2}
    channel = tmp_path / "messages" / "c123"
    channel.mkdir(parents=True)
    actual, skipped = read(channel, "discord", exported_chats.DISCORD_PACKAGE, "messages.json")
    assert actual == [("c123", "see you soon"), ("c123", "happy new year")]
    assert skipped == {"no_text": 1}
    with pytest.raises(DataError, match="neither a JSON file of DiscordChatExporter"):
        read(tmp_path, "discord", {"a": 1})


def test_messenger(tmp_path):
    actual, skipped = read(tmp_path, "messenger", exported_chats.MESSENGER)
    assert actual == [("Anna", "thanks 😀"), ("René", "happy new year")]
    assert skipped == {"no_text": 2}
    with pytest.raises(DataError, match=r"is not message_1\.json of Messenger"):
        read(tmp_path, "messenger", {"a": 1})


def test_slack(tmp_path):
    actual, skipped = read(tmp_path, "slack", exported_chats.SLACK)
    assert actual == [("U1", "happy & healthy"), ("U2", "read https://example.com/a please")]
    assert skipped == {"bot_or_event": 2}
    with pytest.raises(DataError, match="is not a file of a Slack export"):
        read(tmp_path, "slack", {"a": 1})


@pytest.mark.parametrize("source", ["telegram", "discord", "messenger", "slack"])
@pytest.mark.parametrize(
    "content, says",
    [
        (b"", "the file is empty"),
        (b'{"a":\n zebra}', ":2: the file is not valid JSON"),
        (b"[\n\n\xff]", ":3: the line is not UTF-8"),
        (b"[" * 100_000, "it is nested deeper than 100 levels. Export it again"),
        (gzip.compress(b"[]" * 9999, mtime=0)[:-12], "the gzip file ends early"),
    ],
)
def test_rejects_files_that_are_not_json(tmp_path, source, content, says):
    with pytest.raises(DataError, match=says) as caught:
        read(tmp_path, source, content, on_bad_line="skip")
    assert "zebra" not in str(caught.value)


JSON_FILES = {
    "telegram": exported_chats.TELEGRAM,
    "discord": exported_chats.DISCORD,
    "messenger": exported_chats.MESSENGER,
    "slack": {"only": exported_chats.SLACK[0]},
}


@pytest.mark.parametrize("source", JSON_FILES)
@hypothesis.given(st.data())
@examples(200)
def test_other_values_in_an_export(tmp_path_factory, source, data):
    """Replaces each value of the first message by others; a list is a document of its messages."""
    document = JSON_FILES[source]
    if source != "slack":
        place = data.draw(st.integers(0, len(document["messages"]) - 1))
        changed = json.loads(data.draw(damaged_json(document["messages"][place])))
        content = {**document, "messages": [changed]}
    else:
        content = [json.loads(data.draw(damaged_json(document))).get("only")]
    directory = tmp_path_factory.mktemp("values")
    assert is_one_line(lambda: read(directory, source, content))


@pytest.mark.parametrize("source", exported_chats.FILES)
@hypothesis.given(st.data())
@examples(300)
def test_damaged_files_are_read_or_refused_in_one_line_without_their_text(
    tmp_path_factory, source, data
):
    name, sound = exported_chats.FILES[source]
    for word in (b"happy", b"hi", b"thanks", b"see you"):
        sound = sound.replace(word, exported_chats.SECRET.encode())
    path = tmp_path_factory.mktemp("damaged") / name
    path.write_bytes(data.draw(damaged(sound)))
    for on_bad_line in ("error", "skip"):
        said = ""
        try:
            read_file(source, path, on_bad_line)
        except UserError as error:
            said = str(error)
        assert "\n" not in said
        assert exported_chats.SECRET not in said
    formats.format_of(path)


# Text that XML and JSON can both contain: not empty, and without blanks at its ends.
TYPED = st.text(
    st.characters(categories=["L", "N", "P", "So", "Zs"], exclude_characters="<>"), min_size=1
).filter(lambda text: text == text.strip() and clean_text(text) and text != "null")


def telegram_of(rows):
    return json.dumps(
        {
            "messages": [
                {
                    "type": "message",
                    "date": at,
                    "date_unixtime": at,
                    "from_id": user,
                    "text": [text],
                }
                for user, text, at in rows
            ]
        }
    )


def discord_of(rows):
    return json.dumps(
        {
            "channel": {},
            "messages": [
                {"type": "Default", "timestamp": at, "content": text, "author": {"id": user}}
                for user, text, at in rows
            ],
        }
    )


def messenger_of(rows):
    def as_bytes(text):
        return text.encode().decode("latin-1")

    return json.dumps(
        {
            "messages": [
                {"sender_name": as_bytes(user), "content": as_bytes(text), "timestamp_ms": at}
                for user, text, at in rows
            ]
        }
    )


def slack_of(rows):
    return json.dumps(
        [
            {"type": "message", "user": user, "text": html.escape(text, quote=False), "ts": at}
            for user, text, at in rows
        ]
    )


def sms_of(rows):
    root = ElementTree.Element("smses")
    for user, text, at in rows:
        ElementTree.SubElement(
            root, "sms", type="1", address=f"{user}@example.org", body=text, date=str(at)
        )
    content = ElementTree.tostring(root).decode("ascii")  # everything else as `&#128512;`
    return re.sub(r"&#(\d{5,});", _as_the_app_writes_it, content)


def _as_the_app_writes_it(found):
    """Writes characters beyond 16 bits as references to the halves of their pairs."""
    units = chr(int(found[1])).encode("utf-16-be")
    halves = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    return "".join(f"&#{half};" for half in halves)


def encrypted_chat_of(rows):
    return json.dumps(
        {
            "participants": ["a"],
            "threadName": "a_1",
            "messages": [
                {"senderName": user, "text": text, "timestamp": at, "type": "text"}
                for user, text, at in rows
            ],
        }
    )


WRITERS = [
    ("telegram", telegram_of),
    ("discord", discord_of),
    ("messenger", messenger_of),
    ("messenger", encrypted_chat_of),
    ("slack", slack_of),
    ("sms_backup", sms_of),
]


@pytest.mark.parametrize(("source", "write"), WRITERS)
@hypothesis.given(
    rows=st.lists(
        st.tuples(
            st.text("abcdefgh", min_size=1, max_size=6), TYPED, st.integers(10**9, 2 * 10**9)
        ),
        min_size=1,
        max_size=6,
    ),
    is_gzip=st.booleans(),
)
@examples(100)
def test_any_chat_that_a_program_writes_is_read(tmp_path_factory, source, write, rows, is_gzip):
    content = write(rows).encode()
    directory = tmp_path_factory.mktemp("written")
    actual, skipped = read(directory, source, gzip.compress(content) if is_gzip else content)
    end = "@example.org" if source == "sms_backup" else ""
    assert actual == [(user + end, clean_text(text)) for user, text, _ in rows]
    assert not skipped
