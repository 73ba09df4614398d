"""What a session sent: it forgets its messages itself, so tests note them."""

import pytest

from tff_keyboard_app.keyboard.typing_session import TypingSession


@pytest.fixture(autouse=True)
def _messages_of_sessions(monkeypatch):
    """Gives a session the attribute `messages`: the messages that it sent and did not take back."""
    settled_of_class = TypingSession.settled

    def noted(session):
        return vars(session).setdefault("noted", [])

    def settled(session, *, ended=False):
        messages = settled_of_class(session, ended=ended)
        noted(session).extend(sent.text for sent in messages)
        return messages

    def messages(session):
        return noted(session) + [sent.text for sent in session._unsettled]

    monkeypatch.setattr(TypingSession, "settled", settled)
    monkeypatch.setattr(TypingSession, "messages", property(messages), raising=False)
