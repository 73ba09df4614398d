"""Fixtures: an exported hybrid keyboard, and the messages that sessions sent and forgot."""

import pytest

from tests.support.keyboard import hybrid_export
from tff_keyboard_app.keyboard.typing_session import TypingSession
from tflite_export.runtime.hybrid_keyboard import open_keyboard


@pytest.fixture(scope="module")
def exported_hybrid(tmp_path_factory):
    return open_keyboard(hybrid_export.export_hybrid(tmp_path_factory.mktemp("hybrid")))


@pytest.fixture
def hybrid(exported_hybrid):
    """Returns a keyboard that has learned nothing."""
    exported_hybrid.cache.forget_all()
    yield exported_hybrid
    exported_hybrid.cache.forget_all()


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
