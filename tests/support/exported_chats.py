"""Files as the programs of phones and researchers write them, all made up by hand."""

import json

ANDROID = """\
12/31/23, 9:41 PM - Messages and calls are end-to-end encrypted. Tap to learn more.
12/31/23, 9:41 PM - Anna created group "New Year: plans"
12/31/23, 9:41 PM - Anna: happy new year everyone
and the best for all of you

see you on monday
12/31/23, 9:42 PM - Ben: <Media omitted>
12/31/23, 9:43 PM - +65 5550 1234: thanks: same to you
12/31/23, 9:44 PM - Ben: This message was deleted
12/31/23, 9:44 PM - Ben: IMG-20231231-WA0001.jpg (file attached)
the fireworks from our roof
12/31/23, 9:45 PM - Anna: that is so nice <This message was edited>
12/31/23, 9:46 PM - Ben left
"""
IPHONE = """\
[31/12/2023, 21:41:03] New Year: \u200eMessages and calls are end-to-end encrypted.
[31/12/2023, 21:41:05] Anna: happy new year everyone
and the best for all of you
\u200e[31/12/2023, 21:42:00] Ben: \u200eimage omitted
[31/12/2023, 21:43:10] ~\u202fCleo: thanks: same to you
[31/12/2023, 9:43:10\u202fPM] Ben: see you soon \u200e<This message was edited>
"""
TELEGRAM = {
    "name": "New Year",
    "type": "private_group",
    "id": 4711,
    "messages": [
        {"id": 1, "type": "service", "date": "2023-12-31T21:40:00", "action": "create_group"},
        {
            "id": 3,
            "type": "message",
            "date": "2023-12-31T21:43:00",
            "date_unixtime": "1704058980",
            "from": "Ben",
            "from_id": "user2",
            "text": ["look at ", {"type": "link", "text": "https://example.com"}, " please"],
        },
        {
            "id": 2,
            "type": "message",
            "date": "2023-12-31T21:41:00",
            "date_unixtime": "1704058860",
            "from": "Anna",
            "from_id": "user1",
            "text": "happy new year",
        },
        {
            "id": 4,
            "type": "message",
            "date": "2023-12-31T21:44:00",
            "date_unixtime": "1704059040",
            "from": "Anna",
            "from_id": "user1",
            "forwarded_from": "News",
            "text": "not typed by her",
        },
        {
            "id": 5,
            "type": "message",
            "date": "2023-12-31T21:45:00",
            "date_unixtime": "1704059100",
            "from": "Anna",
            "from_id": "user1",
            "photo": "photos/1.jpg",
            "text": "",
        },
    ],
}
SMS = """\
<?xml version='1.0' encoding='UTF-8' standalone='yes' ?>
<!--File Created By SMS Backup & Restore v10.19.003-->
<smses count="6" backup_set="a" backup_date="1704062465000">
  <sms protocol="0" address="+65 5550-1234" date="1704030065000" type="1" subject="null"
    body="see you at 7&#10;bring cake &#55357;&#56832;" read="1" contact_name="Anna" />
  <sms protocol="0" address="+6555501234" date="1704030000000" type="2" body="when do we meet" />
  <sms protocol="0" address="MyBank" date="1704030066000" type="1" body="code 123" />
  <sms protocol="0" address="+6555501234" date="1704030067000" type="3" body="a draft" />
  <mms date="1704030068000" msg_box="1" address="+6555501234~+6555505678">
    <parts>
      <part seq="-1" ct="application/smil" text="&lt;smil/&gt;" />
      <part seq="0" ct="image/jpeg" text="null" data="aGVsbG8=" />
      <part seq="0" ct="text/plain" text="our new car" />
    </parts>
    <addrs><addr address="+6555505678" type="137" /><addr address="+655" type="151" /></addrs>
  </mms>
  <mms date="1704030069000" msg_box="2" address="+6555501234">
    <parts><part seq="0" ct="text/plain" text="lovely" /></parts>
  </mms>
</smses>
"""
DISCORD = {
    "guild": {"id": "1", "name": "Friends"},
    "channel": {"id": "2", "type": "GuildTextChat", "name": "general"},
    "messages": [
        {
            "id": "10",
            "type": "Default",
            "timestamp": "2023-12-31T21:41:03.123+00:00",
            "content": "happy new year <@!99> <:party:1234>",
            "author": {"id": "7", "name": "anna", "isBot": False},
        },
        {
            "id": "11",
            "type": "Reply",
            "timestamp": "2023-12-31T21:42:03+00:00",
            "content": "same to you",
            "author": {"id": "8", "name": "ben", "isBot": False},
        },
        {
            "id": "12",
            "type": "GuildMemberJoin",
            "timestamp": "2023-12-31T21:43:03+00:00",
            "content": "Joined the server.",
            "author": {"id": "9", "name": "cleo", "isBot": False},
        },
        {
            "id": "13",
            "type": "Default",
            "timestamp": "2023-12-31T21:44:03+00:00",
            "content": "I count messages",
            "author": {"id": "5", "name": "counter", "isBot": True},
        },
    ],
}
DISCORD_PACKAGE = [
    {"ID": 2, "Timestamp": "2023-12-31 21:42:00", "Contents": "see you soon", "Attachments": ""},
    {"ID": 1, "Timestamp": "2023-12-31 21:41:00", "Contents": "happy new year", "Attachments": ""},
    {"ID": 3, "Timestamp": "2023-12-31 21:43:00", "Contents": "", "Attachments": "https://x.y/z"},
]
SLACK = [
    {"type": "message", "user": "U1", "text": "happy &amp; healthy <@U2>", "ts": "1704058860.1"},
    {
        "type": "message",
        "user": "U2",
        "text": "read <https://example.com/a|this> please",
        "ts": "1704058861.000200",
    },
    {"type": "message", "subtype": "channel_join", "user": "U3", "text": "joined", "ts": "1"},
    {"type": "message", "subtype": "bot_message", "bot_id": "B1", "text": "build ok", "ts": "2"},
]
MESSENGER = {
    "participants": [{"name": "Ren\u00c3\u00a9"}, {"name": "Anna"}],
    "messages": [
        {
            "sender_name": "Anna",
            "timestamp_ms": 1704058921000,
            "content": "thanks \u00f0\u009f\u0098\u0080",
            "is_geoblocked_for_viewer": False,
        },
        {
            "sender_name": "Ren\u00c3\u00a9",
            "timestamp_ms": 1704058860000,
            "content": "happy new year",
            "reactions": [{"reaction": "\u00e2\u009d\u00a4", "actor": "Anna"}],
        },
        {"sender_name": "Anna", "timestamp_ms": 1704058930000, "photos": [{"uri": "a.jpg"}]},
        {"sender_name": "Anna", "timestamp_ms": 1704058940000, "content": "x", "is_unsent": True},
    ],
    "title": "Ren\u00c3\u00a9",
    "thread_path": "inbox/rene_1",
}
SECRET = "zebra"  # a word for text that no error may quote

# Format -> name and bytes of a sound file, for tests that damage it.
FILES = {
    "whatsapp": ("chat.txt", ANDROID.encode()),
    "telegram": ("result.json", json.dumps(TELEGRAM).encode()),
    "sms_backup": ("sms.xml", SMS.encode()),
    "discord": ("general.json", json.dumps(DISCORD).encode()),
    "messenger": ("message_1.json", json.dumps(MESSENGER).encode()),
    "slack": ("2023-12-31.json", json.dumps(SLACK).encode()),
    "csv": ("a.csv", b'id,user,text\n1,anna,"hi, you"\n2,ben,"two\nlines ""here"""\n3,cleo,bye\n'),
    "jsonl": ("a.jsonl", b'{"user": "anna", "text": "hi"}\n{"user": 7, "text": "bye"}\n'),
}
