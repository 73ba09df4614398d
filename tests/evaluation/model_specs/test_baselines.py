"""Hybrids with weights fitted on the validation clients of a store."""

import numpy as np

from tests.support.hybrid_fakes import WORDS, hybrid, ngram, typed_by
from tests.support.ngram_fakes import messages_of, vocabulary_of
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.vocabulary import OOV
from tff_keyboard.evaluation.counts import hybrid_stream, predictor_evaluation, typed_text
from tff_keyboard.evaluation.model_specs import baselines
from tff_keyboard.predictors.hybrid.hybrid_predictor import HybridPredictor


def test_weights_are_fitted_on_many_clients(monkeypatch):
    text = typed_by(6, seed=3)
    much = [["b", "c", "d"]] * 40_000
    everybody = typed_text.TypedText("validation", ("much", *text.clients), (much, *text.messages))
    monkeypatch.setattr(typed_text, "of_population", lambda store, population: everybody)
    actual = hybrid()
    assert baselines.fit_on_validation(actual, None, "it") == "7 clients of 'validation'"
    of_one = baselines._FIT_WORDS_OF_ONE // 3
    heard = typed_text.TypedText("", everybody.clients, (much[:of_one], *text.messages))
    expected = hybrid_stream.fit_weights(hybrid(), heard)
    np.testing.assert_array_equal(actual.weights.table, expected.table)


def test_ngrams_of_one_user_are_in_baselines_but_not_in_hybrids():
    own = np.array([4, 5, 6, 7, 8, 9, 10])
    messages = [own, own, *messages_of(3, 200)]
    text = baselines.TrainText(messages, [0, 0, *(1 + i % 9 for i in range(200))])
    spec = baselines.read_spec("hybrid:6kB:RUN")
    baseline = baselines.train_baseline("", "", spec, messages, vocabulary_of(30)).predictor
    beside, data = baselines.train_for_hybrid(spec, text, vocabulary_of(30))
    assert len(data) <= 6_000
    words = [vocabulary_of(30).words[i] for i in own[:6]]
    assert baseline.next_word(words)[10] > 0.5 > beside.next_word(words)[10]
    several = baselines.TrainText(messages, list(range(len(messages))))
    shared, _ = baselines.train_for_hybrid(spec, several, vocabulary_of(30))
    assert shared.next_word(words)[10] > 0.5


def test_every_word_gets_a_row_after_the_vocabulary():
    table = hybrid().vocabulary
    messages = [["i", "zzz", "<url>"], ["yes", "zzz", "home"], ["abc"]]
    actual, ids = baselines.every_word(messages, table)
    assert actual.words == (*table.words, "zzz", "abc", "yes")
    assert [[actual.words[i] for i in own] for own in ids] == [
        ["i", "zzz", actual.words[OOV]],
        ["yes", "zzz", "home"],
        ["abc"],
    ]
    assert baselines.every_word([WORDS], table)[0] == table


def test_baseline_with_own_words_is_ngram_and_cache(store):
    """Both components have every word, and learnt words add to the n-gram's share."""
    opened = ClientStore(store)
    text = baselines.read_train_text(opened)

    def made(word):
        return baselines.open_baseline(word, word, baselines.read_spec(word), text, opened)

    plain, every, own = (made(f"ngram{more}:2").predictor for more in ("", "+all", "+all+own"))
    typed = {w for c in opened.client_ids("train") for m in opened.words("train", c) for w in m}
    unknown = sorted(w for w in typed if opened.vocabulary.id_of(w) == OOV and w[0] != "<")
    assert unknown
    assert plain.vocabulary == opened.vocabulary
    assert own.vocabulary == every.vocabulary
    assert set(every.vocabulary.words) == {*plain.vocabulary.words, *unknown}
    word, row = unknown[0], every.vocabulary.id_of(unknown[0])
    assert own.weights.table[:, 2].max() > 0
    for _ in range(3):
        own.learn([word])
    weights = own._weights(1, "")  # of the first word of a message
    expected = (weights[0] + weights[1]) * every.next_word([])
    own.table.add_to(expected, "", float(weights[2]))
    np.testing.assert_allclose(own.next_word([])[row], expected[row], rtol=1e-5)


def test_ngram_without_network_is_computed_once():
    text, one = typed_by(4, seed=9), ngram(3)
    weights = hybrid().weights
    same, copy = (HybridPredictor(network, one, weights) for network in (one, ngram(3)))
    actual, expected = (predictor_evaluation.evaluate(model, text).sums for model in (same, copy))
    for name, values in expected.items():
        np.testing.assert_allclose(actual[name], values, rtol=1e-6, err_msg=name)
