"""The streaming evaluation against a simulated user, key by key."""

import collections
import math

import numpy as np
import pytest

from tests.support.hybrid_fakes import (
    TAIL,
    VOCABULARY,
    by_definition,
    hybrid,
    random_weights,
    typed_by,
)
from tff_keyboard.data.vocabulary import EOS, OOV, SPECIAL_WORDS, is_mask
from tff_keyboard.evaluation.counts import counter, hybrid_stream, predictor_evaluation
from tff_keyboard.evaluation.counts.typed_text import TypedText
from tff_keyboard.evaluation.metrics.metric_table import HOST_SUMS
from tff_keyboard.predictors.hybrid.mixture import CACHE, MixtureWeights
from tff_keyboard.predictors.hybrid.word_cache import WordCache


def test_parts_have_the_same_sums_as_the_whole_text(monkeypatch):
    """The cache is cleared between clients, so some clients may be evaluated elsewhere."""
    text = typed_by(7, seed=3)
    in_one_go = predictor_evaluation.evaluate(hybrid(), text)
    monkeypatch.setattr(counter, "_POSITIONS_AT_ONCE", 40)

    def elsewhere(unused_predictor, text, parts, **options):
        assert len(parts) > 2
        for place in reversed(range(len(parts))):
            actual = predictor_evaluation.count_part(hybrid(), text, parts[place], **options)
            yield place, actual

    parts = predictor_evaluation.evaluate(hybrid(), text, compute=elsewhere)
    for name, values in in_one_go.sums.items():
        np.testing.assert_allclose(parts.sums[name], values, rtol=1e-6, err_msg=name)


def simulate(predictor, person, max_length):
    """Simulates a user who watches the strip, and a keyboard that learns each sent message."""
    sums = collections.Counter()
    predictor.cache.forget_all()
    for message in person:
        sums["examples"] += 1
        for position, word in enumerate([*message, None][: max_length or None]):
            p = by_definition(predictor, message[:position])
            strip = [w for w, _ in predictor.suggest(message[:position])]
            table_words = set(predictor.table.extras)
            target = EOS if word is None else VOCABULARY.id_of(word)
            kind = {EOS: "eos", OOV: "oov"}.get(target, "words")
            classes = [p[w] for w in VOCABULARY.words]
            classes[OOV] += sum(p[w] for w in p.keys() - set(VOCABULARY.words))
            sums["tokens"] += 1
            sums["nll"] -= math.log(classes[target])
            if kind != "words":
                sums[f"{kind}_tokens"] += 1
                sums[f"nll_{kind}"] -= math.log(classes[target])
            hits = "oov_hits" if kind == "oov" else "hits"
            sums[f"{hits}_at_1"] += word == strip[0]
            sums[f"{hits}_at_3"] += word in strip
            order = [*VOCABULARY.words, *sorted(table_words)]
            allowed = [w for w in order if w not in SPECIAL_WORDS or w == "<eos>"]
            allowed.sort(key=lambda w: (-p[w], order.index(w)))
            offered = word if word is not None else "<eos>"
            for k in (1, 3):
                sums[f"hits_at_{k}_eos_allowed"] += kind != "oov" and offered in allowed[:k]
            sums[f"argmax_hits_{kind}"] += int(np.argmax(classes)) == target
            sums["impressions"] += 1
            sums["zero_state_impressions"] += position == 0
            sums["impression_matches"] += word in strip
            sums["zero_state_matches"] += position == 0 and word in strip
            sums["confidence"] += max(p[w] for w in [*VOCABULARY.words[4:], *table_words])
            sums["reciprocal_ranks"] += 1 / (1 + strip.index(word)) if word in strip else 0
            if word is None:
                continue
            if is_mask(word):
                sums["masked_words"] += 1
                continue
            typed = 0
            while typed < len(word):
                if word in [w for w, _ in predictor.suggest(message[:position], word[:typed])]:
                    break
                typed += 1
            sums["characters"] += len(word)
            sums["oov_characters"] += len(word) if kind == "oov" else 0
            sums["typed_free"] += typed
            sums["typed_counted"] += typed + 1 if typed < len(word) else len(word)
        predictor.cache.observe(message)
    return sums


@pytest.mark.parametrize(
    "max_length, extras, offered_from, tail",
    [
        (0, 4000, 1, None),
        (4, 4000, 1, None),
        (0, 2, 1, None),
        (0, 4000, 2, None),
        (0, 2, 2, TAIL),
    ],
)
def test_sums_match_a_simulated_user(max_length, extras, offered_from, tail, monkeypatch):
    monkeypatch.setattr(hybrid_stream, "_MAX_EXTRAS", extras)
    monkeypatch.setattr(hybrid_stream, "_SCORES_AT_ONCE", 700)  # several runs and flushes
    text = typed_by(6, seed=8)
    predictor = hybrid(offered_from=offered_from, tail=tail)
    actual = predictor_evaluation.evaluate(predictor, text, max_length=max_length).sums
    assert set(actual) == set(HOST_SUMS)
    assert predictor.cache == WordCache(30, 0.1)
    for person in range(6):
        expected = simulate(predictor, text.messages[person], max_length)
        assert set(expected) <= set(actual)
        for name, values in actual.items():
            assert values[person] == pytest.approx(expected[name], rel=1e-4), name
    assert actual["oov_hits_at_3"].sum() > 1


class Stateless:
    """A hybrid that is evaluated without streaming."""

    def __init__(self, inner):
        self.vocabulary = inner.vocabulary
        self.suggest = inner.suggest
        self.log_probabilities = inner.log_probabilities


def test_without_a_cache_the_sums_match_the_general_evaluation():
    """The cache has zero weight, and each client has one message, so nothing is learnt in time."""
    text = typed_by(9, seed=5, messages=2)
    predictor = hybrid()
    streamed = predictor_evaluation.evaluate(predictor, text).sums
    plain = predictor_evaluation.evaluate(Stateless(predictor), text).sums
    for name, values in plain.items():
        np.testing.assert_allclose(streamed[name], values, rtol=1e-5, err_msg=name)
    assert streamed["oov_hits_at_3"].sum() == 0


def test_fitted_weights_make_the_text_more_probable():
    text, other = typed_by(25, seed=11, messages=14), typed_by(12, seed=12, messages=14)
    predictor = hybrid()
    fitted = hybrid_stream.fit_weights(predictor, text)

    def loss(weights, text):
        predictor.weights = weights
        sums = predictor_evaluation.evaluate(predictor, text).sums
        return sums["nll"].sum() / sums["tokens"].sum()

    flat = random_weights()
    flat = MixtureWeights(np.where(flat.table > 0, 1, 0) / (flat.table > 0).sum(1, keepdims=True))
    assert loss(fitted, text) < min(loss(flat, text), loss(random_weights(), text)) - 0.01
    assert loss(fitted, other) < loss(flat, other)
    bare = fitted.table.copy()
    bare[:, CACHE] = 0
    bare = MixtureWeights(bare / bare.sum(axis=1, keepdims=True))
    assert loss(fitted, other) < loss(bare, other) - 0.05  # learning favourite words helps


def test_rejects_a_negative_length_and_no_text():
    text = typed_by(1, seed=1)
    with pytest.raises(ValueError, match="`max_length`"):
        predictor_evaluation.evaluate(hybrid(), text, max_length=-1)
    with pytest.raises(ValueError, match="no words"):
        hybrid_stream.fit_weights(hybrid(), TypedText("none", (), ()))
