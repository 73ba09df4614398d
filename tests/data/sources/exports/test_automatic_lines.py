"""Messages that chat programs write by themselves are left out; similar ones of users stay."""

import json
import time
from xml.sax.saxutils import quoteattr

import pytest

from tff_keyboard.data.sources import formats
from tff_keyboard.data.sources.exports import automatic_lines
from tff_keyboard.data.sources.messages import ParserState

MESSENGER_REACTIONS = [
    "Reacted ❤ to your message ",
    "Reacted 😂 to your message",
    "Liked a message",
    "Anna reacted 👍🏽 to your message.",
    "Hat mit 😂 auf deine Nachricht reagiert",
    "Hat eine Nachricht mit „Gefällt mir“ markiert",
    "Reaccionó con ❤️ a tu mensaje",
    "Reaccionó 👍 a tu mensaje",
    "Le gustó un mensaje",
    "A réagi 😮 à votre message",
    "A aimé un message",
    "Ha reagito con 😂 al tuo messaggio",
    'Ha messo "Mi piace" a un messaggio',
    "Reagiu com 👍 à sua mensagem",
    "Curtiu uma mensagem",
    "Heeft met ❤ gereageerd op je bericht",
    "Vindt een bericht leuk",
    "Zareagował(a) 👍 na Twoją wiadomość",
    "Polubił(a) wiadomość",
    "Mesajına 😂 ifadesi bıraktı",
    "Bir mesajı beğendi",
]

MESSENGER_EVENTS = [
    "Anna sent an attachment.",
    "You sent an attachment.",
    "Anna Roe sent a photo.",
    "Anna sent 3 photos.",
    "Anna sent a GIF from Tenor.",
    "Anna sent a live location.",
    "You unsent a message",
    "Anna unsent a message.",
    "Anna pinned a message.",
    "Anna named the group Club.",
    "You named the group Trip: July 2024.",
    "Anna removed the group name.",
    "Anna changed the group photo.",
    "Anna changed the theme to Spain 🇪🇸",
    "Anna changed the chat theme.",
    "Anna changed the chat colors.",
    "Anna set the emoji to 🐻.",
    "Anna set the quick reaction to 🐻.",
    "Anna set the nickname for Ben Poe to Bear.",
    "You set your nickname to Bear.",
    "Anna set her own nickname to Bee.",
    "Anna set your nickname to Bear.",
    "Anna cleared the nickname for Ben Poe.",
    "Anna Roe added Ben Poe to the group.",
    "Anna removed Ben Poe from the group.",
    "Anna added Ben Poe as a group admin.",
    "Anna left the group.",
    "Anna created the group.",
    "Anna created a poll: where to?",
    'Anna voted for "home" in the poll: where to?',
    "This poll is no longer available.",
    "Anna started a plan.",
    "Anna responded Can't Go to dinner.",
    "Anna started a video chat.",
    "You started an audio call",
    "Anna joined the call.",
    "The video chat ended.",
    "Audio call ended",
    "Missed video call",
    "You missed a call from Anna.",
    "Ben missed your call.",
    "You are now connected on Messenger",
    "You can now message and call each other and see info like Active Status.",
    "Say hi to your new Facebook friend, Anna.",
    "Ben wasn't notified about this message because they're in quiet mode.",
    "Ben Poe wasn’t notified about this message because they’re in quiet mode.",
    "Anna turned on vanish mode.",
    "Anna waved at you!",
    "Anna hat einen Anhang gesendet.",
    "Du hast einen Anhang gesendet.",
    "Anna hat die Gruppe Club genannt.",
    "Anna hat Ben Poe zur Gruppe hinzugefügt.",
    "Anna hat die Gruppe verlassen.",
    "Anna hat das Design in Liebe geändert.",
    "Anna hat den Spitznamen für Ben Poe auf Bär festgelegt.",
    "Anna hat eine Umfrage erstellt: wohin?",
    "Du hast einen Anruf von Anna verpasst.",
    "Der Videochat wurde beendet.",
    "Anna envió un archivo adjunto.",
    "Enviaste un archivo adjunto.",
    "Anna nombró al grupo Club.",
    "Anna agregó a Ben Poe al grupo.",
    "Anna salió del grupo.",
    "Anna cambió la foto del grupo.",
    "Anna creó una encuesta: ¿adónde?",
    "Anna estableció el apodo de Ben Poe como Oso.",
    "La videollamada finalizó.",
    "Anna a envoyé une pièce jointe.",
    "Vous avez envoyé une pièce jointe.",
    "Anna a nommé le groupe Club.",
    "Anna a ajouté Ben Poe au groupe.",
    "Anna a quitté le groupe.",
    "Anna a défini l’emoji sur 🐻.",
    "Anna a modifié les couleurs de la discussion.",
    "Anna a créé un sondage : où ?",
    "Anna a voté pour « maison » dans le sondage : où ?",
    "Anna a défini le pseudo de Ben Poe sur Ours.",
    "Anna a rejoint l’appel.",
    "La discussion vidéo est terminée.",
    "Anna ha inviato un allegato.",
    "Hai inviato un allegato.",
    "Anna ha chiamato il gruppo Club.",
    "Anna ha aggiunto Ben Poe al gruppo.",
    "Anna ha abbandonato il gruppo.",
    "Anna ha creato un sondaggio: dove?",
    "Anna enviou um anexo.",
    "Você enviou um anexo.",
    "Anna nomeou o grupo Club.",
    "Anna adicionou Ben Poe ao grupo.",
    "Anna saiu do grupo.",
    "Anna criou uma enquete: onde?",
    "Anna iniciou uma chamada de vídeo",
    "Anna heeft een bijlage verzonden.",
    "Je hebt een bijlage verzonden.",
    "Anna heeft de groep de naam Club gegeven.",
    "Anna heeft Ben Poe toegevoegd aan de groep.",
    "Anna heeft de groep verlaten.",
    "Anna heeft een poll gemaakt: waar?",
    "Anna wysłał załącznik.",
    "Użytkownik Anna wysłał załącznik.",
    "Wysłałeś(aś) załącznik.",
    "Anna nadał(a) nazwę grupy Nowa Nazwa.",
    "Anna dodał Ben Poe do grupy.",
    "Anna usunął użytkownika Ben Poe z grupy.",
    "Opuściłeś(aś) grupę.",
    "Anna zmienił godzinę planu na pt., 28 lut o 18:22.",
    "Odpowiedź Anna na wydarzenie Plan: Nie mogę wziąć udziału",
    "Anna bir ek gönderdi.",
    "Bir ek gönderdin.",
    "Anna gruba Kulüp adını verdi.",
    "Anna, Ben Poe adlı kişiyi gruba ekledi.",
    "Anna gruptan ayrıldı.",
    "Anna bir anket oluşturdu: nerede?",
]

# Typed by Anna, and similar to sentences of Meta.
MESSENGER_TYPED = [
    "I liked a message from my boss",
    "Reacted badly to your message, sorry",
    "she reacted 😂 to your message so I did too",
    "Ben sent an attachment.",
    "I sent an attachment",
    "anna sent a photo to me",
    "who added him to the group?",
    "You left the group?",
    "you named the group badly",
    "Annabelle sent an attachment.",
    "can you set the nickname for me to bear",
    "let us create a poll: where to",
    "Missed you",
    "You missed a call",
    "Missed call",
    "Call ended",
    "Ben joined Facebook in 2010",
    "Reminder, bring cake",
    "You called me.",
    "This message was deleted by mistake",
    "Anna is my name",
    "hat jemand die Gruppe verlassen?",
    "Du hast mich angerufen.",
    "Tu as appelé maman.",
    "Tu as voté pour qui",
    "Votaste ayer",
    "Hai chiamato Ben.",
    "Você ligou para ela.",
    "Je hebt op Ben gestemd.",
    "Mesajını beğendi",
    "dodał mnie do grupy",
]


def read(tmp_path, source, name, content):
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    reading = ParserState()
    return [text for _, _, text in formats.EXPORTS[source](path, reading)], dict(reading.skipped)


def as_bytes(text):
    return text.encode().decode("latin-1")


def messenger_chat(*entries):
    usual = {"sender_name": "Anna Roe", "timestamp_ms": 1704058860000}
    participants = [{"name": "Anna Roe"}, {"name": "Ben Poe"}]
    return {"participants": participants, "messages": [{**usual, **entry} for entry in entries]}


@pytest.mark.parametrize(
    ("text", "count"),
    [(text, "reaction") for text in MESSENGER_REACTIONS]
    + [(text, "line_of_messenger") for text in MESSENGER_EVENTS],
)
def test_sentences_of_messenger_are_not_typed(tmp_path, text, count):
    chat = messenger_chat({"content": as_bytes(text)}, {"content": "so nice"})
    assert read(tmp_path, "messenger", "message_1.json", chat) == (["so nice"], {count: 1})
    encrypted = {"senderName": "Anna Roe", "timestamp": 1704058860000, "type": "text"}
    chat = {
        "participants": ["Anna Roe", "Ben Poe"],
        "messages": [{**encrypted, "text": text}, {**encrypted, "text": "so nice"}],
    }
    assert read(tmp_path, "messenger", "Anna_1.json", chat) == (["so nice"], {count: 1})


@pytest.mark.parametrize(
    "entry",
    [
        {"type": "Subscribe", "content": "Anna Roe added Ben Poe.", "users": [{"name": "Ben Poe"}]},
        {"type": "Subscribe", "content": "any words"},
        {"type": "Unsubscribe", "content": "any words"},
        {"type": "Call", "content": "any words"},
        {"users": [{"name": "Ben Poe"}], "content": "any words"},
        {"call_duration": 0, "content": "any words"},
    ],
)
def test_messages_that_meta_marks_are_not_typed(tmp_path, entry):
    chat = messenger_chat(entry, {"type": "Generic", "content": "so nice"})
    actual = read(tmp_path, "messenger", "message_1.json", chat)
    assert actual == (["so nice"], {"line_of_messenger": 1})


@pytest.mark.parametrize("text", MESSENGER_TYPED)
def test_similar_text_in_messenger_is_typed(tmp_path, text):
    chat = messenger_chat({"content": as_bytes(text)})
    assert read(tmp_path, "messenger", "message_1.json", chat) == ([text], {})


@pytest.mark.parametrize("sender", ["Facebook user", "Anna ✨ Roe", "A contact"])
def test_names_of_senders_in_messenger(tmp_path, sender):
    """Meta removes the name of a deleted account from `sender_name`, but not from the sentence."""
    name = "Cem Sa" if sender == "Facebook user" else sender
    entries = [
        {"sender_name": as_bytes(sender), "content": as_bytes(f"{name} left the group.")},
        {"sender_name": as_bytes(sender), "content": "who left the group?"},
    ]
    actual = read(tmp_path, "messenger", "message_1.json", messenger_chat(*entries))
    assert actual == (["who left the group?"], {"line_of_messenger": 1})


@pytest.mark.parametrize(
    "text",
    [
        "Anna set the nickname for " + "a to " * 200_000,
        "Anna " * 200_000,
        "Reacted " + "❤" * 1_000_000,
        "Anna hat den Spitznamen für " + " auf" * 115,
        "You set the nickname for " + " to" * 1500,
        "Anna " + "hat in der Umfrage " * 250,
        "Anna " * 1000,
        "Liked “" + "“" * 4900,
        "❤" * 4900,
        "Anna's " + "security code " * 350,
        "ile güvenlik kodunuz değişti " * 170,
    ],
)
@pytest.mark.parametrize("program", ["messenger", "whatsapp", "sms"])
def test_long_text_takes_linear_time(program, text):
    sentences = automatic_lines.of_program(program)
    members = automatic_lines.Members(["Anna Roe"] + [f"Anna {n}" for n in range(50)])
    begun = time.process_time()
    sentences.kind_of(text, "Anna Roe", members)
    assert time.process_time() - begun < 1


def test_no_sentence_is_text_of_a_user_without_its_name():
    """A sentence about a member begins with a name, and other words do not begin a chat line."""
    sentences = automatic_lines.of_program("messenger")
    members = automatic_lines.Members(["Anna Roe", "", " "])
    for text in (" sent an attachment.", "sent an attachment.", "", " ", "Anna", "Anna Roe"):
        assert sentences.kind_of(text, "Anna Roe", members) is None


WHATSAPP_LINES = """\
Group|Messages and calls are end-to-end encrypted. No one outside of this chat can read them.
Group|Messages and calls are end-to-end encrypted. Only people in this chat can read them.
AK|~ AK created this group
AK|AK created group "Trip"
Group|You created this group
Group|You created group "Trip"
Group|You joined using this group's invite link
Group|You joined using this group’s invite link
AK|AK joined using this group's invite link
AK|AK added Ben Poe
AK|AK removed Ben Poe
AK|AK left
AK|AK was added
AK|AK changed the subject to “Trip”
AK|AK changed the group name to “Trip”
AK|AK changed this group's icon
AK|AK changed the group description
AK|AK changed their phone number to a new number. Tap to message or add the new number.
AK|AK is now an admin
Group|You're now an admin
AK|AK pinned a message
AK|AK turned on disappearing messages. New messages will disappear after 24 hours.
AK|Your security code with AK changed. Tap to learn more.
AK|AK's security code changed.
AK|This message was deleted
AK|This message was deleted.
AK|You deleted this message.
AK|This message was deleted by admin Ben.
AK|Missed voice call
AK|Missed video call. Tap to call back.
AK|Missed voice call at 9:41 PM
AK|Voice call, No answer
AK|Video call, 38 sec
AK|Waiting for this message. This may take a while.
AK|null
Gruppe|Nachrichten und Anrufe sind Ende-zu-Ende-verschlüsselt. Niemand außerhalb liest sie.
AK|AK hat die Gruppe „Reise“ erstellt.
AK|AK hat Ben Poe hinzugefügt.
AK|AK hat die Gruppe verlassen.
AK|Diese Nachricht wurde gelöscht.
AK|Verpasster Sprachanruf
Grupo|Los mensajes y las llamadas están cifrados de extremo a extremo. Nadie los lee.
AK|AK añadió a Ben Poe
AK|AK salió del grupo
AK|Se eliminó este mensaje.
AK|Llamada perdida
Groupe|Les messages et les appels sont chiffrés de bout en bout. Personne ne les lit.
AK|AK a ajouté Ben Poe
AK|AK a quitté le groupe
AK|Ce message a été supprimé
AK|Appel vocal manqué
Gruppo|I messaggi e le chiamate sono crittografati end-to-end. Nessuno li legge.
AK|AK ha aggiunto Ben Poe
AK|AK ha abbandonato il gruppo
AK|Questo messaggio è stato eliminato
Grupo|As mensagens e as chamadas são protegidas com a criptografia de ponta a ponta. Ninguém.
AK|AK adicionou Ben Poe
AK|AK saiu do grupo
AK|Mensagem apagada
Groep|Berichten en oproepen zijn end-to-end versleuteld. Niemand leest ze.
AK|AK heeft Ben Poe toegevoegd
AK|AK heeft de groep verlaten
AK|Dit bericht is verwijderd
Grupa|Wiadomości i połączenia są w pełni szyfrowane. Nikt ich nie czyta.
AK|AK dodał(a) Ben Poe
AK|Ta wiadomość została usunięta
Grup|Mesajlar ve aramalar uçtan uca şifrelidir. Kimse okuyamaz.
AK|AK, Ben Poe kişisini ekledi
AK|Bu mesaj silindi"""

# With the mark U+200E, as iPhones write them.
WHATSAPP_PLACEHOLDERS = """\
image omitted
video omitted
audio omitted
sticker omitted
GIF omitted
document omitted
Contact card omitted
<attached: 00000012-PHOTO-2023-12-31.jpg>
Bild weggelassen
imagen omitida
image absente
immagine omessa
imagem ocultada
afbeelding weggelaten
pominięto obraz
görüntü dahil edilmedi
תמונה הושמטה"""
WHATSAPP_TYPED = """\
You left
You added me to the wrong group
You removed it?
left
Ben left
Ben added me
Messages and calls are the best
voice call, 5 pm?
Voice call, later
missed voice call from you, sorry
Missed voice call, sorry
this message was deleted by mistake
waiting for this message made my day
I pinned a message
AKA created this group
Du hast mich entfernt
Hai rimosso tutto
Je hebt de groep verlaten?"""


def whatsapp_line(sender, text):
    return f"[31/12/2023, 21:41:05] {sender}: {text}\n[31/12/2023, 21:41:06] Cem: so nice\n"


@pytest.mark.parametrize("line", WHATSAPP_LINES.splitlines())
@pytest.mark.parametrize("mark", ["", "\u200e"])
def test_lines_of_whatsapp_with_a_sender_are_not_typed(tmp_path, line, mark):
    """Kody-K/whatsapp-chat-parser #258, whatstk #135: iPhones give them a sender."""
    sender, text = line.split("|")
    actual = read(tmp_path, "whatsapp", "_chat.txt", whatsapp_line(sender, mark + text))
    assert actual == (["so nice"], {"line_of_whatsapp": 1})


@pytest.mark.parametrize("line", ["Anna Lee added you", "AK left", "Anna hat AK entfernt"])
def test_marked_lines_about_other_members_are_not_typed(tmp_path, line):
    actual = read(tmp_path, "whatsapp", "_chat.txt", whatsapp_line("Group", f"\u200e{line}"))
    assert actual == (["so nice"], {"line_of_whatsapp": 1})


@pytest.mark.parametrize("text", WHATSAPP_PLACEHOLDERS.splitlines())
def test_placeholders_of_whatsapp_are_omitted_media(tmp_path, text):
    actual = read(tmp_path, "whatsapp", "_chat.txt", whatsapp_line("AK", f"\u200e{text}"))
    assert actual == (["so nice"], {"omitted_media": 1})


@pytest.mark.parametrize("text", WHATSAPP_TYPED.splitlines())
def test_similar_text_in_whatsapp_is_typed(tmp_path, text):
    actual = read(tmp_path, "whatsapp", "_chat.txt", whatsapp_line("AK", text))
    assert actual == ([text, "so nice"], {})


SMS_REACTIONS = """\
Liked “see you at 7”
Loved “see you”
Disliked “see you”
Laughed at “so "funny" it is”
Emphasized “see you”
Questioned “see you”
Loved an image
Laughed at a photo
Removed a heart from “see you”
Removed an exclamation from “see you”
Reacted 😂 to “see you”
Reacted with a sticker to “see you”
👍 to “see you”
❤️ to "see you"
😂 removed from "see you"
Gefällt „bis bald“
A aimé « à bientôt »
Reaccionó con 😂 a “hasta luego”"""
SMS_TYPED = """\
Liked the film
loved “Barbie” so much
I liked “Barbie”
Liked “Barbie” a lot
Laughed at him
Reacted badly to “Barbie”
👍 to you
Removed a heart""".splitlines()


def sms(*texts):
    rows = "".join(
        f'<sms type="1" address="+6555501234" date="1704030065000" body={quoteattr(text)} />'
        for text in texts
    )
    return f"<smses>{rows}</smses>"


@pytest.mark.parametrize("text", [*SMS_REACTIONS.splitlines(), f"Liked “{'so ' * 900}”"])
def test_reactions_in_sms_are_not_typed(tmp_path, text):
    """moezbhatti/qksms #1763: iPhones send reactions, with the text of another user, as SMS."""
    assert read(tmp_path, "sms_backup", "a.xml", sms(text, "so nice")) == (
        ["so nice"],
        {"reaction": 1},
    )


@pytest.mark.parametrize("text", SMS_TYPED)
def test_similar_sms_are_typed(tmp_path, text):
    assert read(tmp_path, "sms_backup", "a.xml", sms(text)) == ([text], {})


@pytest.mark.parametrize(
    ("attributes", "count"),
    [
        ('type="1" address="MyBank"', "from_a_service"),
        ('type="1" address="12345"', "from_a_service"),
        ('type="3" address="+6555501234"', "never_sent"),
        ('type="5" address="+6555501234"', "never_sent"),
    ],
)
def test_sms_that_no_person_sent_are_not_typed(tmp_path, attributes, count):
    content = f'<smses><sms {attributes} date="1" body="any words" /></smses>'
    assert read(tmp_path, "sms_backup", "a.xml", content) == ([], {count: 1})


TELEGRAM = {"type": "message", "from": "Anna", "from_id": "user1", "text": "any words"}


@pytest.mark.parametrize(
    ("entry", "count"),
    [
        *(
            ({"type": "service", "action": action}, "event_of_the_chat")
            for action in ("create_group", "invite_members", "pin_message", "phone_call", "unknown")
        ),
        ({"forwarded_from": "News"}, "forwarded"),
        ({"forwarded_from": None}, "forwarded"),
        ({"via_bot": "@gif"}, "forwarded"),
        ({"from_id": "user777000", "from": "Telegram"}, "bot"),
        ({"inline_bot_buttons": [[{"type": "callback", "text": "yes"}]]}, "bot"),
        ({"text": ""}, "no_text"),
        ({"text": [{"type": "bot_command", "text": "/start"}]}, "no_text"),
        ({"text": "", "poll": {"question": "where?"}}, "no_text"),
    ],
)
def test_messages_of_telegram_itself_and_of_bots_are_not_typed(tmp_path, entry, count):
    typed = {**TELEGRAM, "from_id": "user2", "text": "so nice"}
    content = {"messages": [{**TELEGRAM, **entry}, typed]}
    assert read(tmp_path, "telegram", "result.json", content) == (["so nice"], {count: 1})


def test_all_messages_of_a_bot_with_buttons_are_left_out(tmp_path):
    """A user who forwards a message with buttons, or sends one via a bot, is not a bot."""
    buttons = {"inline_bot_buttons": [[{"type": "callback", "text": "yes"}]]}
    messages = [
        {**TELEGRAM, "from_id": "user5"},
        {**TELEGRAM, "from_id": "user5", **buttons},
        {**TELEGRAM, "text": "so nice"},
        {**TELEGRAM, **buttons, "forwarded_from": "Bot"},
        {**TELEGRAM, **buttons, "via_bot": "@gif"},
    ]
    actual = read(tmp_path, "telegram", "result.json", {"messages": messages})
    assert actual == (["so nice"], {"bot": 2, "forwarded": 2})


DISCORD = {"type": "Default", "author": {"id": "7", "name": "anna"}, "content": "any words"}


@pytest.mark.parametrize(
    ("entry", "count"),
    [
        *(
            ({"type": kind}, "bot_or_event")
            for kind in (
                *(
                    "GuildMemberJoin",
                    "ChannelPinnedMessage",
                    "Call",
                    "RecipientAdd",
                    "6",
                    "7",
                    "24",
                ),
                *("RecipientRemove", "ChannelNameChange", "ChannelIconChange", "ThreadCreated"),
                *("UserPremiumGuildSubscription", "ApplicationCommand", "AutoModerationAction"),
            )
        ),
        ({"author": {"id": "5", "name": "b", "isBot": True}}, "bot_or_event"),
        ({"content": ""}, "no_text"),
        ({"content": "<@!99> <:party:1234> <#55> <t:1700000000:R>"}, "no_text"),
        ({"content": "@anna"}, "no_text"),
    ],
)
def test_messages_of_discord_itself_and_of_bots_are_not_typed(tmp_path, entry, count):
    content = {"messages": [{**DISCORD, **entry}, {**DISCORD, "content": "so nice"}]}
    assert read(tmp_path, "discord", "a.json", content) == (["so nice"], {count: 1})


SLACK = {"type": "message", "user": "U1", "text": "any words"}


@pytest.mark.parametrize(
    ("entry", "count"),
    [
        *(
            ({"subtype": subtype}, "bot_or_event")
            for subtype in (
                *(
                    "channel_join",
                    "channel_leave",
                    "channel_topic",
                    "channel_purpose",
                    "bot_message",
                ),
                *("channel_name", "channel_archive", "pinned_item", "tombstone", "huddle_thread"),
                *("reminder_add", "bot_add", "file_comment", "sh_room_created", "group_join"),
            )
        ),
        ({"bot_id": "B1"}, "bot_or_event"),
        ({"user": "USLACKBOT"}, "bot_or_event"),
        ({"text": "<@U2> <#C1|general> <!here> :tada:"}, "no_text"),
        (
            {
                "subtype": "file_share",
                "text": "<@U1|ann> uploaded a file: <https://a.slack.com/files/a.png|my photo>",
            },
            "no_text",
        ),
    ],
)
def test_messages_of_slack_itself_and_of_bots_are_not_typed(tmp_path, entry, count):
    content = [{**SLACK, **entry}, {**SLACK, "text": "so nice"}]
    assert read(tmp_path, "slack", "2023-12-31.json", content) == (["so nice"], {count: 1})


def test_comments_on_files_in_slack_are_typed(tmp_path):
    upload = (
        "<@U1> uploaded a file: <https://a.slack.com/files/a.png|my photo> and commented: so nice"
    )
    texts = [upload, "she uploaded a file: look", "so nice too"]
    content = [{**SLACK, "subtype": "file_share", "text": text} for text in texts]
    actual = read(tmp_path, "slack", "2023-12-31.json", content)
    assert actual == (["so nice", *texts[1:]], {})
