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
