"""Hybrids whose weights are fitted on the validation people of a store."""

import numpy as np

from tests.support.hybrid_fakes import hybrid, typed_by
from tests.support.ngram_fakes import messages_of, vocabulary_of
from tff_keyboard.evaluation.counts import hybrid_stream, typed_text
from tff_keyboard.evaluation.named import trained_here


def test_somebody_who_writes_much_does_not_speak_for_all(monkeypatch):
    text = typed_by(6, seed=3)
    much = [["b", "c", "d"]] * 40_000
    everybody = typed_text.TypedText("validation", ("much", *text.people), (much, *text.messages))
    monkeypatch.setattr(typed_text, "of_population", lambda store, population: everybody)
    found = hybrid()
    assert trained_here.fit_on_validation(found, None, "it") == "7 people of 'validation'"
    of_one = trained_here._FIT_WORDS_OF_ONE // 3
    heard = typed_text.TypedText("", everybody.people, (much[:of_one], *text.messages))
    wanted = hybrid_stream.fit_weights(hybrid(), heard)
    np.testing.assert_array_equal(found.weights.table, wanted.table)


def test_what_one_person_alone_typed_is_in_a_baseline_and_in_no_hybrid():
    own = np.array([4, 5, 6, 7, 8, 9, 10])
    messages = [own, own, *messages_of(3, 200)]
    text = trained_here.TrainText(messages, [0, 0, *(1 + i % 9 for i in range(200))])
    spec = trained_here.read_spec("hybrid:6kB:RUN")
    baseline = trained_here.train_baseline("", "", spec, messages, vocabulary_of(30)).predictor
    beside, data = trained_here.train_for_hybrid(spec, text, vocabulary_of(30))
    assert len(data) <= 6_000
    words = [vocabulary_of(30).words[i] for i in own[:6]]
    assert baseline.next_word(words)[10] > 0.5 > beside.next_word(words)[10]
    several = trained_here.TrainText(messages, list(range(len(messages))))
    shared, _ = trained_here.train_for_hybrid(spec, several, vocabulary_of(30))
    assert shared.next_word(words)[10] > 0.5
