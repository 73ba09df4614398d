"""Messages that chat programs write by themselves are left out; similar ones of users stay."""

import json
import time

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
        "You set the nickname for " + " to" * 150,
    ],
    ids=["nickname", "names", "emoji", "german", "you"],
)
def test_long_text_takes_linear_time(text):
    sentences = automatic_lines.of_program("messenger")
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
