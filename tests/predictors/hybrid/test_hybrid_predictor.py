"""The mixture against its definition."""

import numpy as np
import pytest

from tests.support.hybrid_fakes import (
    SORTED,
    VOCABULARY,
    WORDS,
    by_definition,
    hybrid,
    learn,
    ngram,
    typed_by,
)
from tff_keyboard.data.vocabulary import BOS, OOV, SPECIAL_WORDS, NormalisationRules, Vocabulary
from tff_keyboard.predictors.hybrid import mixture
from tff_keyboard.predictors.predictor import Predictor

CONTEXTS = [[], ["i"], ["zzz"], ["i", "am"], ["homely", "at"], ["how", "are", "you", "at", "all"]]


@pytest.mark.parametrize("learnt", [0, 1, 5])
@pytest.mark.parametrize("compact", [False, True, None])
def test_scores_are_the_mixture(learnt, compact):
    if compact is None:
        predictor = hybrid(ngram=None, weights=mixture.WITHOUT_NGRAM)
    else:
        predictor = hybrid(ngram=ngram(3, SORTED, compact))
    assert isinstance(predictor, Predictor)
    for message in typed_by(1, seed=4, messages=12).messages[0][:learnt]:
        predictor.cache.observe(message)
    for context in CONTEXTS:
        expected = by_definition(predictor, context)
        assert sum(expected.values()) == pytest.approx(1, abs=1e-5)
        actual = predictor.next_word(context)
        names = [*VOCABULARY.words, *predictor.table.extras]
        assert dict(zip(names, actual.tolist(), strict=True)) == pytest.approx(expected, rel=1e-5)
        if context and VOCABULARY.id_of(context[-1]) == OOV:
            continue  # the ids do not contain the last word's name
        scores = predictor.log_probabilities(np.array([[BOS, *VOCABULARY.encode(context)]]))[-1]
        merged = actual[: len(VOCABULARY)].copy()
        merged[OOV] += actual[len(VOCABULARY) :].sum()
        np.testing.assert_allclose(np.exp(scores), merged, rtol=1e-5)


def test_an_empty_cache_without_an_ngram_leaves_the_network():
    predictor = hybrid(ngram=None, weights=mixture.WITHOUT_NGRAM)
    for context in CONTEXTS:
        np.testing.assert_array_equal(
            predictor.next_word(context), predictor.network.next_word(context)
        )
        assert predictor.suggest(context, "h") == predictor.network.suggest(context, "h")
    ids = np.array([[BOS, *VOCABULARY.encode(["i", "am"])]])
    np.testing.assert_allclose(
        predictor.log_probabilities(ids), predictor.network.log_probabilities(ids), rtol=1e-6
    )


def test_strip_has_the_best_words_of_the_mixture():
    predictor = hybrid()
    learn(predictor, typed_by(1, seed=4, messages=12))
    seen_extra = 0
    for context in CONTEXTS:
        p = by_definition(predictor, context)
        order = {w: i for i, w in enumerate([*VOCABULARY.words, *predictor.table.extras])}
        for prefix in ("", "h", "ho", "hom", "z", "ye", "q"):
            fitting = [w for w in p if w.startswith(prefix) and w not in SPECIAL_WORDS]
            best = sorted(fitting, key=lambda w: (-p[w], order[w]))[:3]
            strip = predictor.suggest(context, prefix)
            assert [word for word, _ in strip] == best
            assert [value for _, value in strip] == pytest.approx([p[w] for w in best], rel=1e-5)
            seen_extra += any(VOCABULARY.id_of(w) == OOV for w in best)
    assert seen_extra > 3


def test_learning_and_forgetting_take_effect_immediately():
    predictor = hybrid()
    before = predictor.suggest(["i"], "z")
    assert before == []
    predictor.cache.observe(["i", "zzz"])
    assert predictor.suggest(["i"], "z")[0][0] == "zzz"
    predictor.cache.forget(["zzz"])
    assert predictor.suggest(["i"], "z") == []
    predictor.cache.forget_all()
    np.testing.assert_array_equal(predictor.next_word(["i"]), hybrid().next_word(["i"]))


def test_an_ngram_of_other_words_is_refused():
    other = Vocabulary((*SPECIAL_WORDS, *WORDS[:-1], "two"), NormalisationRules())
    with pytest.raises(ValueError, match="different vocabularies"):
        hybrid(ngram=ngram(2, other))
