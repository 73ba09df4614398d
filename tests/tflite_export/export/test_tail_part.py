"""The lexicon of an export."""

from unittest import mock

from tflite_export.export import tail_part


def test_lexicon_uses_the_min_word_users_of_the_store():
    store = mock.Mock(card={"vocabulary": {"min_word_users": 5}})
    assert [tail_part.clients_needed(store, wanted) for wanted in (0, 3)] == [5, 3]
