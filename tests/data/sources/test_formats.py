"""Detection of a file's format, and files of several formats read together."""

import gzip
import json

import pytest

from tests.support import exported_chats
from tff_keyboard.config.sections.data_config import DataConfig
from tff_keyboard.data.sources import formats, open_source
from tff_keyboard.data.sources.messages import Message, ParserState
from tff_keyboard.storage.errors import DataError


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    "name, content, expected",
    [
        ("a.tsv", "anna\thi\n", "tsv"),
        ("a.tsv", "user\ttext\nanna\thi\n", "tsv"),
        ("a.tsv", '"user"\t"text"\n"anna"\t"hi"\n', "csv"),
        ("a.tsv.gz", gzip.compress(b'"anna"\t"hi"\r\n', mtime=0), "csv"),
        ("a.tsv", "id\tauthor\tbody\n1\tanna\thi\n", "csv"),
        ("a.tsv", "user\tuser\ttext\n", "tsv"),
        ("a.txt", "anna\thi\n", "tsv"),
        ("a.txt", "user,text\nanna,hi\n", "csv"),
        ("a.txt", exported_chats.ANDROID, "whatsapp"),
        ("_chat.txt", exported_chats.IPHONE, "whatsapp"),
        ("a.csv", "anything", "csv"),
        ("A.CSV.GZ", gzip.compress(b"x", mtime=0), "csv"),
        ("a.parquet", b"PAR1", "parquet"),
        ("a.jsonl", '{"user": "a", "text": "b"}\n', "jsonl"),
        ("a.json", '{"user": "a", "text": "b"}\n{"user": "a", "text": "b"}\n', "jsonl"),
        ("a.json", '[{"user": "a", "text": "b"}]', "jsonl"),
        ("a.json", "{}", "jsonl"),
        ("result.json", json.dumps(exported_chats.TELEGRAM), "telegram"),
        ("result.json", json.dumps({"chats": {"list": [exported_chats.TELEGRAM]}}), "telegram"),
        (
            "a.json.gz",
            gzip.compress(json.dumps(exported_chats.DISCORD).encode(), mtime=0),
            "discord",
        ),
        ("message_1.json", json.dumps(exported_chats.MESSENGER), "messenger"),
        ("messages.json", json.dumps(exported_chats.DISCORD_PACKAGE), "discord"),
        ("2023-12-31.json", json.dumps(exported_chats.SLACK, indent=4), "slack"),
        ("sms-20231231.xml", exported_chats.SMS, "sms_backup"),
    ],
)
def test_format_by_ending_and_beginning(tmp_path, name, content, expected):
    assert formats.format_of(write(tmp_path / name, content)) == expected


@pytest.mark.parametrize("name", ["chat.zip", "messages.html", "book.xlsx", "a.csv.zst"])
def test_files_that_are_not_read(tmp_path, name):
    with pytest.raises(DataError, match=f"{name}: is (a|compressed).*[.]"):
        formats.format_of(write(tmp_path / name, b"PK"))


def test_missing_files_are_left_to_their_reader(tmp_path):
    assert formats.format_of(tmp_path / "a.tsv") == "tsv"
    assert formats.format_of(tmp_path / "a.json") == "jsonl"


def messages(**options):
    source = open_source.open_source(DataConfig(**options))
    reading = ParserState()
    return list(source.messages(reading)), source, reading


def test_folders_of_exports(tmp_path):
    slack = json.dumps(exported_chats.SLACK[:1])
    for place in ("general/2023-12-31.json", "general/2024-01-01.json", "random/2023-12-30.json"):
        write(tmp_path / "slack" / place, slack)
    write(tmp_path / "slack" / "users.json", "[]")
    assert formats.format_of(tmp_path / "slack") == "slack"
    actual, source, _ = messages(source="slack", input=str(tmp_path / "slack"))
    assert len(actual) == len(source.files) == 3
    package = json.dumps(exported_chats.DISCORD_PACKAGE)
    write(tmp_path / "package/messages/c1/messages.json", package)
    write(tmp_path / "package/messages/index.json", "{}")
    for folder in (tmp_path / "package", tmp_path / "package" / "messages"):
        assert formats.format_of(folder) == "discord"
        actual, _, _ = messages(source="discord", input=str(folder))
        assert actual == [Message("c1", "happy new year"), Message("c1", "see you soon")]  # by time
    inbox = tmp_path / "facebook" / "your_activity" / "messages" / "inbox" / "rene_1"
    write(inbox / "message_1.json", json.dumps(exported_chats.MESSENGER))
    for folder in (tmp_path / "facebook", inbox):
        assert formats.format_of(folder) == "messenger"
        actual, _, _ = messages(source="messenger", input=str(folder))
        assert actual == [Message("René", "happy new year"), Message("Anna", "thanks 😀")]
    for name in ("WhatsApp Chat - Anna/_chat.txt", "WhatsApp Chat with Ben.txt"):
        write(tmp_path / "chats" / name, "[31.12.23, 21:41:03] Anna: hello\n")
    assert formats.format_of(tmp_path / "chats") == "whatsapp"
    actual, _, _ = messages(source="whatsapp", input=str(tmp_path / "chats"))
    assert actual == [Message("Anna", "hello")] * 2
    (tmp_path / "empty").mkdir()
    assert formats.format_of(tmp_path / "empty") == "text"
    with pytest.raises(DataError, match="has no files of a slack export"):
        messages(source="slack", input=str(tmp_path / "empty"))


def test_several_formats_at_once(tmp_path):
    chat = write(tmp_path / "a.txt", exported_chats.ANDROID)
    result = write(tmp_path / "result.json", json.dumps(exported_chats.TELEGRAM))
    table = write(tmp_path / "a.csv", "user,text\nanna,hi\n")
    corpus = write(tmp_path / "a.tsv", "anna\thi\n")
    assert formats.common_format([chat, chat]) == "whatsapp"
    assert formats.common_format([chat, result, table]) == "auto"
    assert formats.common_format([corpus], has_columns=True) == "csv"
    with pytest.raises(DataError, match=r"a\.tsv: has the format 'tsv'"):
        formats.common_format([chat, corpus])
    actual, _, reading = messages(source="auto", input=(str(chat), str(result), str(table)))
    assert [user for user, *_ in actual] == [
        *("Anna", "+65 5550 1234", "Ben", "Anna"),  # without a time, so first
        *("anna", "user1", "user2"),
    ]
    assert len(reading.columns) == 1


def test_messages_come_in_the_order_of_time_over_all_files(tmp_path):
    one = write(tmp_path / "1.csv", "user,text,at\na,third,30\nb,first,10\n")
    two = write(tmp_path / "2.csv", "at,user,text\n20,a,second\n30,c,last\n")
    paths = (str(one), str(two))
    actual, _, _ = messages(source="csv", input=paths, time_column="at")
    assert [text for _, text, *_ in actual] == ["first", "second", "third", "last"]
    actual, _, reading = messages(source="csv", input=paths)
    assert [text for _, text, *_ in actual] == ["third", "first", "second", "last"]
    assert reading.skipped == {"header": 2}
