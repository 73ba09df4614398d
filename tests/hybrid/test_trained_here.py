"""Hybrids whose weights are fitted on the validation people of a store."""

import numpy as np

from tests.hybrid_fakes import hybrid, typed_by
from tff_keyboard.evaluation import typed_text
from tff_keyboard.hybrid import streaming, trained_here


def test_somebody_who_writes_much_does_not_speak_for_all(monkeypatch):
    text = typed_by(6, seed=3)
    much = [["b", "c", "d"]] * 40_000
    everybody = typed_text.TypedText("validation", ("much", *text.people), (much, *text.messages))
    monkeypatch.setattr(typed_text, "of_population", lambda store, population: everybody)
    found = hybrid()
    assert trained_here.fit_on_validation(found, None, "it") == "7 people of 'validation'"
    of_one = trained_here._FIT_WORDS_OF_ONE // 3
    heard = typed_text.TypedText("", everybody.people, (much[:of_one], *text.messages))
    wanted = streaming.fit_weights(hybrid(), heard)
    np.testing.assert_array_equal(found.weights.table, wanted.table)
