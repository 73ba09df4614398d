"""Files that users of other parsers reported as unreadable, with other text."""

import json

import pytest

from tests.support import exported_chats
from tff_keyboard.config.sections.data_config import DataConfig
from tff_keyboard.data.sources import formats, open_source
from tff_keyboard.data.sources.messages import ParserState
from tff_keyboard.storage.errors import DataError


def users_and_texts(path):
    """Returns the messages of a file or folder whose format is detected."""
    source = open_source.open_source(DataConfig(source=formats.format_of(path), input=str(path)))
    return [(message.user, message.text) for message in source.messages(ParserState())]


@pytest.mark.parametrize(
    "line",
    [
        # automaciej/whatsapp-archive #1 and #4
        "2016-06-27, 8:04:08 AM: Neil: Hi",
        "[27-11-18 18:43:20] Neil: Hi",
        # nmoya/whatsapp-parser #4
        "09/12/2012 17:03:48: Neil: Hi",
        "3/24/14, 1:59:59 PM: Neil: Hi",
        "24/3/14, 13:59:59: Neil: Hi",
        # joweich/chat-miner #66 and the formats in its tests; #54: years first
        "8/21/21, 11:06 PM - Neil: Hi",
        "9/24/2019 11:30 p.m. - Neil: Hi",
        "12/24/2019 11:30 p. m. - Neil: Hi",
        "09/10/22 10:37:00 p.m. - Neil: Hi",
        "[09/10/22 10:37:00 p.m.] Neil: Hi",
        "09-10-2022 10:37:00 p.m. - Neil: Hi",
        "10.24.21, 15:21:43 - Neil: Hi",
        "2022/12/14, 10:37 - Neil: Hi",
        # ChatLab #131: narrow no-break space of iPhones
        "[14/10/2021, 3:34:09\u202fPM] Neil: Hi",
        "[14/10/2021, 3:34:09\u2009PM] Neil: Hi",
        # Duelion/whatsapp-wrapped #12
        "03.08.21, 12:30 - Neil: Hi",
    ],
)
def test_dates_of_whatsapp(tmp_path, line):
    path = tmp_path / "chat.txt"
    path.write_text(f"{line}\n")
    assert users_and_texts(path) == [("Neil", "Hi")]


@pytest.mark.parametrize(
    "line",
    [
        "[19/10/2025, 01:02:19] Rowers: \u200eAnna Lee added you",  # alignerg/lappers-posts #133
        '12/24/14, 17:08 - +12 345 578 created group "Rowers"',
        "12/24/14, 17:08 - You were added",
        "7/6/17, 19:25 - Messages and calls are end-to-end encrypted. Tap to learn more.",
    ],
)
def test_lines_of_whatsapp_itself_are_skipped(tmp_path, line):
    path = tmp_path / "chat.txt"
    path.write_text(f"{line}\r\n[19/10/2025, 01:02:20] John-John Lee: so - be: it\r\n")
    assert users_and_texts(path) == [("John-John Lee", "so - be: it")]


@pytest.mark.parametrize("emoji", ["&#55357;&#56838;", "&#128518;", "&#xD83D;&#xDE06;"])
def test_emoji_in_the_xml_of_a_phone(tmp_path, emoji):
    """SilenceIM/Silence #317, signalapp/Signal-Android #7155: XML has no surrogate halves."""
    path = tmp_path / "sms.xml"
    path.write_text(
        '<smses count="1"><sms address="0123456789" date="1400000000000" type="1" '
        f'body="{emoji}" /></smses>'
    )
    assert users_and_texts(path) == [("0123456789", "😆")]


def test_files_that_a_windows_shell_made_utf_16(tmp_path):
    """xeals/signal-back #29: PowerShell's `>` writes UTF-16."""
    for name, text in (
        ("sms.xml", exported_chats.SMS),
        ("result.json", json.dumps(exported_chats.TELEGRAM)),
        ("chat.csv", "user,text\na,b\n"),
        ("chat.txt", exported_chats.ANDROID),
    ):
        path = tmp_path / name
        path.write_text(text, "utf-16")
        with pytest.raises(DataError, match=rf"{name}:1: the file is UTF-16.*iconv"):
            users_and_texts(path)


def test_the_folder_of_a_telegram_export(tmp_path):
    """xming521/WeClone #188, timelinize #191, Suberbia/UltimateChatRestorer #1."""
    chat = tmp_path / "ChatExport_2025-01-01"
    (chat / "chats" / "chat_01").mkdir(parents=True)
    (chat / "messages.html").write_text("<html>")
    for folder in (tmp_path, chat):
        if folder == chat:
            with pytest.raises(DataError, match=r"a Telegram export in HTML.*JSON"):
                formats.format_of(chat)
    (chat / "result.json").write_text(json.dumps(exported_chats.TELEGRAM))
    for folder in (tmp_path, chat):
        assert len(users_and_texts(folder)) == 2


def test_a_deleted_account_of_telegram_is_a_client(tmp_path):
    """Its name is null, its id is there (tnjd/telegram-export #71)."""
    message = {**exported_chats.TELEGRAM["messages"][1], "from": None}
    path = tmp_path / "result.json"
    path.write_text(json.dumps({**exported_chats.TELEGRAM, "messages": [message]}))
    ((user, _),) = users_and_texts(path)
    assert user == message["from_id"]


def test_federated_data_of_a_csv_file(tmp_path):
    """TFF #848: users' rows of a table."""
    path = tmp_path / "ratings.csv"
    path.write_text("userId,movieId,text\n7,31,great fun\n8,31,too long\n7,32,no\n")
    assert users_and_texts(path) == [("7", "great fun"), ("8", "too long"), ("7", "no")]


@pytest.mark.parametrize(
    "poll",
    [
        "POLL:\nWhen?\nOPTION: friday (1 vote)\nOPTION: sunday (2 votes)",
        "\u200ePOLL:\n\u200eWhen?\n\u200eOPTION: friday (\u200e1 vote)",
        "UMFRAGE:\nWann?\nOPTION: Freitag (3 Stimmen)",
        "Anna Lee.vcf (file attached)",  # gesiscss/WhatsR #42: names of contacts
        "location: https://maps.google.com/?q=1.29,103.85",
    ],
)
def test_polls_contacts_and_places_of_whatsapp_are_not_typed(tmp_path, poll):
    """Pustur/whatsapp-chat-parser-website #43 and #49."""
    path = tmp_path / "chat.txt"
    path.write_text(
        f"31.12.23, 21:41 - Anna: {poll}\n31.12.23, 21:42 - Ben: a note:\nbuy (2) cakes\n"
    )
    assert users_and_texts(path) == [("Ben", "a note: buy (2) cakes")]


@pytest.mark.parametrize("language", ["Сообщение изменено", "Meddelandet har redigerats"])
def test_the_mark_of_an_edited_message_is_not_typed(tmp_path, language):
    """koftezz/whatsapp-chat-analyzer #18."""
    path = tmp_path / "chat.txt"
    path.write_text(f"31.12.23, 21:41 - Anna: so <3 nice <{language}>\n")
    assert users_and_texts(path) == [("Anna", "so <3 nice")]


def test_encrypted_chats_of_messenger(tmp_path):
    """stepva/chatalysis #104, Yukaii/messenger-JSON-viewer #12, adurivault/FBMessage #5."""
    message = {"isUnsent": False, "senderName": "Renée", "timestamp": 1704058860000, "type": "text"}
    messages = [
        {**message, "text": "so nice é"},
        {**message, "text": "gone", "isUnsent": True},
        {**message, "text": "", "type": "media"},
    ]
    content = {"participants": ["Renée"], "threadName": "Renée_1", "messages": messages}
    (tmp_path / "Renée_1.json").write_text(json.dumps(content))
    for path in (tmp_path, tmp_path / "Renée_1.json"):
        assert users_and_texts(path) == [("Renée", "so nice é")]


def test_instagrams_mark_of_an_edited_message(tmp_path):
    """mlomb/chat-analytics #114."""
    message = {"sender_name": "Anna", "timestamp_ms": 1704058860000, "content": "nice (edited)"}
    path = tmp_path / "message_1.json"
    path.write_text(json.dumps({"participants": [], "messages": [message]}))
    assert users_and_texts(path) == [("Anna", "nice")]


def test_bots_and_commands_of_telegram(tmp_path):
    """Kosat/telegram-messages-dump #3: which sender is a bot?"""
    message = exported_chats.TELEGRAM["messages"][1]
    command = {"type": "bot_command", "text": "/help"}
    messages = [
        {**message, "from_id": "user9", "text": "I am a bot"},
        {**message, "text": [command, " me with ", {"type": "bold", "text": "this"}]},
    ]
    chat = {"type": "bot_chat", "id": 9, "messages": messages}
    path = tmp_path / "result.json"
    path.write_text(json.dumps({"chats": {"list": [chat]}}))
    assert users_and_texts(path) == [("user2", "me with this")]


def test_old_data_package_of_discord(tmp_path):
    """Androz2091/discord-data-package-explorer #33 and #34: `messages.csv`."""
    channel = tmp_path / "messages" / "c12"
    channel.mkdir(parents=True)
    (channel / "messages.csv").write_text(
        'ID,Timestamp,Contents,Attachments\n2,2021-01-01 00:00:02+00:00,"bye,\nben",\n'
        "1,2021-01-01 00:00:01+00:00,hi <:party:12>,\n3,2021-01-01 00:00:03+00:00,,https://x.y\n"
    )
    for path in (tmp_path, tmp_path / "messages", channel / "messages.csv"):
        assert users_and_texts(path) == [("c12", "hi"), ("c12", "bye, ben")]
    (channel / "messages.csv").write_text('ID,Timestamp,Contents,Attachments\n1,2,"zebra\n')
    with pytest.raises(DataError, match="is not valid CSV"):
        users_and_texts(tmp_path)


def test_emoji_and_addresses_of_slack(tmp_path):
    """datadesk/slackdown #2: Slack writes emoji as names, and turns addresses into links."""
    text = "ok :+1::skin-tone-2: at 10:30:15 :tada: <mailto:a@b.org|a@b.org> a:b:c :)"
    message = {"type": "message", "user": "U1", "ts": "1704058860.1", "text": text}
    (tmp_path / "general").mkdir()
    path = tmp_path / "general" / "2023-12-31.json"
    path.write_text(json.dumps([message]))
    ((_, actual),) = users_and_texts(tmp_path)
    assert actual.split() == ["ok", "at", "10:30:15", "a@b.org", "a:b:c", ":)"]


def test_deleted_posts_of_reddit_are_no_clients(tmp_path):
    """THRED #40, ParlAI #2838: dumps of Reddit contain deleted users and texts."""
    rows = [
        ("[deleted]", "hi"),
        ("ann", "[removed]"),
        ("ann", "[deleted]"),
        ("ann", "hi [deleted]"),
    ]
    path = tmp_path / "RC_2019-12.jsonl"
    path.write_text("".join(json.dumps({"author": a, "body": b}) + "\n" for a, b in rows))
    assert users_and_texts(path) == [("ann", "hi [deleted]")]


@pytest.mark.parametrize("control", ["\\x01", "\\x0C", "\x01", "\x1f"])
def test_control_characters_in_an_export_of_telegram(tmp_path, control):
    """tdesktop #27571, mlomb/chat-analytics #100: in the data of a bot's button, and in text."""
    message = {**exported_chats.TELEGRAM["messages"][1], "text": "hi @@ there", "data": "@@@@"}
    content = json.dumps({**exported_chats.TELEGRAM, "messages": [message]}, indent=1)
    path = tmp_path / "result.json"
    path.write_text(content.replace("@@", control))
    reading = ParserState()
    ((_, _, text),) = formats.EXPORTS["telegram"](path, reading)
    assert (text[:3], len(text), text[4:]) == ("hi ", 10, " there")
    line = content[: content.index("@@")].count("\n") + 1
    assert reading.repairs == [(path, line, "control character in a string", 3)]
    assert not reading.skipped


def test_unquoted_ids_in_an_export_of_telegram(tmp_path):
    """tdesktop #24961, #24984, #25045: version 4.1.1 and custom emoji."""
    emoji = '{"type": "custom_emoji",\n "text": "😮",\n "document_id": video/sticker (2).webm\n}'
    message = {**exported_chats.TELEGRAM["messages"][1], "text": ["so ", "@@"]}
    content = json.dumps({**exported_chats.TELEGRAM, "messages": [message]})
    path = tmp_path / "result.json"
    path.write_text(content.replace('"@@"', emoji))
    assert [text for _, text in users_and_texts(path)] == ["so 😮"]
    reading = ParserState()
    list(formats.EXPORTS["telegram"](path, reading))
    assert reading.repairs == [(path, 3, "unquoted id", 1)]


def test_tables_and_our_files_are_read_strictly(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('[{"user": "ann", "text": "hi \x01"}]')
    with pytest.raises(DataError, match="is not valid JSON"):
        users_and_texts(path)
