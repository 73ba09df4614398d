"""Sums per client against a simulation that calls `suggest` key by key."""

import collections
import math

import numpy as np
import pytest

from tff_keyboard.data.vocabulary import (
    EOS,
    NUM_SPECIAL,
    OOV,
    SPECIAL_WORDS,
    NormalisationRules,
    Vocabulary,
    is_mask,
)
from tff_keyboard.evaluation.counts import (
    batch_evaluation,
    counter,
    positions,
    predictor_evaluation,
    tensorflow_sums,
    text_blocks,
    typed_text,
)
from tff_keyboard.evaluation.counts.slices import SLICE_SUMS
from tff_keyboard.evaluation.metrics.metric_table import HOST_SUMS, METRICS
from tff_keyboard.evaluation.statistics.sums import metric_value
from tff_keyboard.models import build_model
from tff_keyboard.predictors.keras_predictor import KerasPredictor
from tff_keyboard.predictors.ngram.ngram_predictor import NGramPredictor
from tff_keyboard.predictors.predictor import Predictor
from tff_keyboard.predictors.tail_lexicon import TailLexicon
from tff_keyboard.storage.errors import DataError

WORDS = ["i", "am", "at", "all", "home", "here", "hey", "how", "are", "you", "your", "on", "one"]
VOCABULARY = Vocabulary((*SPECIAL_WORDS, *WORDS), NormalisationRules())


def typed_by(people, seed, longest=9):
    rng = np.random.default_rng(seed)
    typed = [*WORDS, "zzz", "homely", "<url>"]
    weights = 1 / np.arange(1, len(typed) + 1)
    messages = tuple(
        [
            rng.choice(typed, rng.integers(1, longest + 1), p=weights / weights.sum()).tolist()
            for _ in range(rng.integers(1, 7))
        ]
        for _ in range(people)
    )
    return typed_text.TypedText("synthetic", tuple(f"p{i}" for i in range(people)), messages)


def ngram(order=3):
    text = typed_by(30, seed=1)
    ids = [np.array(VOCABULARY.encode(m)) for person in text.messages for m in person]
    return NGramPredictor.train(ids, VOCABULARY, order=order)


def cifg(seed=1):
    model = build_model(
        "cifg", vocabulary_size=len(VOCABULARY), seed=seed, units=7, embedding_size=5
    )
    model.embedding.assign(3 * model.embedding)  # sharper scores than an untrained model has
    return KerasPredictor(model, VOCABULARY)


class WithTail:
    """An n-gram with a lexicon for its strip."""

    vocabulary = VOCABULARY
    tail = TailLexicon(["homely", "horse", "yes", "zzz"], np.array([0.4, 0.05, 0.1, 0.3]))

    def __init__(self):
        self._ngram = ngram()
        self.log_probabilities = self._ngram.log_probabilities

    def suggest(self, context, prefix="", k=3):
        ids = np.array([[1, *VOCABULARY.encode(context)]], np.int32)
        unknown = math.exp(self.log_probabilities(ids)[-1][OOV])
        actual = self._ngram.suggest(context, prefix, k)
        for word, share in zip(self.tail.words, self.tail.shares, strict=True):
            if prefix and word.startswith(prefix):
                actual.append((word, unknown * float(share)))
        return sorted(actual, key=lambda suggestion: -suggestion[1])[:k]


def simulate(predictor, person, max_length):
    """Simulates a user who watches the strip. Computes every metric by its definition."""
    sums = collections.Counter()
    for message in person:
        sums["examples"] += 1
        targets = [*message, None][: max_length or None]
        for position, word in enumerate(targets):
            context = message[:position]
            ids = np.array([[1, *VOCABULARY.encode(context)]], np.int32)
            scores = predictor.log_probabilities(ids)[-1]
            target = EOS if word is None else VOCABULARY.id_of(word)
            ranking = sorted(range(len(VOCABULARY)), key=lambda i: (-scores[i], i))
            with_eos = [i for i in ranking if i >= NUM_SPECIAL or i == EOS]
            strip = [w for w, _ in predictor.suggest(context, "", 3)]
            hit = word in strip
            kind = {EOS: "eos", OOV: "oov"}.get(target, "words")
            sums["tokens"] += 1
            sums["nll"] -= scores[target]
            if kind != "words":
                sums[f"{kind}_tokens"] += 1
                sums[f"nll_{kind}"] -= scores[target]
            sums["hits_at_1"] += word == strip[0]
            sums["hits_at_3"] += hit
            sums["hits_at_1_eos_allowed"] += target in with_eos[:1]
            sums["hits_at_3_eos_allowed"] += target in with_eos[:3]
            sums[f"argmax_hits_{kind}"] += ranking[0] == target
            sums["reciprocal_ranks"] += 1 / (1 + strip.index(word)) if hit else 0
            sums["impressions"] += 1
            sums["confidence"] += predictor.suggest(context, "", 1)[0][1]
            sums["impression_matches"] += hit
            sums["zero_state_impressions"] += position == 0
            sums["zero_state_matches"] += position == 0 and hit
            if word is None:
                continue
            if is_mask(word):
                sums["masked_words"] += 1
                continue
            typed = 0
            while typed < len(word) and word not in [
                w for w, _ in predictor.suggest(context, word[:typed], 3)
            ]:
                typed += 1
            sums["characters"] += len(word)
            sums["oov_characters"] += len(word) if target == OOV else 0
            sums["typed_free"] += typed
            sums["typed_counted"] += min(typed + 1, len(word))
    return sums


@pytest.mark.parametrize(
    "make, max_length",
    [
        (ngram, 0),
        (ngram, 4),
        (WithTail, 0),
        (cifg, 4),
        pytest.param(cifg, 0, marks=pytest.mark.slow),
    ],
)
def test_sums_match_a_simulated_user(make, max_length, monkeypatch):
    monkeypatch.setattr(positions, "_SCORES_AT_ONCE", 30 * len(VOCABULARY))  # batches
    monkeypatch.setattr(counter, "_POSITIONS_AT_ONCE", 50)  # added up in parts
    predictor, text = make(), typed_by(5, seed=2)
    actual = predictor_evaluation.evaluate(predictor, text, max_length=max_length).sums
    for row, person in enumerate(text.messages):
        expected = simulate(predictor, person, max_length)
        for name, values in actual.items():
            assert values[row] == pytest.approx(expected[name], rel=1e-5), name
    assert list(actual) == list(HOST_SUMS)
    assert all(actual[name].dtype == kind for name, kind in HOST_SUMS.items())


def as_lists(counts):
    slices = {
        (family, label, name): values.tolist()
        for family, table in counts.slices.items()
        for label, sums in table.items()
        for name, values in sums.items()
    }
    return {name: values.tolist() for name, values in counts.sums.items()} | slices


def test_order_and_place_of_parts_do_not_change_the_sums(monkeypatch):
    monkeypatch.setattr(positions, "_SCORES_AT_ONCE", 30 * len(VOCABULARY))
    monkeypatch.setattr(counter, "_POSITIONS_AT_ONCE", 50)
    predictor, text = ngram(), typed_by(12, seed=5)
    given = []

    def elsewhere(predictor, text, parts, **options):
        given.extend(parts)
        actual = predictor_evaluation.one_by_one(predictor, text, parts, **options)
        return iter(sorted(actual, key=lambda item: (item[0] % 2, -item[0])))

    here = predictor_evaluation.evaluate(predictor, text, max_length=5)
    there = predictor_evaluation.evaluate(predictor, text, max_length=5, compute=elsewhere)
    assert len(given) == 3
    assert [part.start for part in given[1:]] == [part.stop for part in given[:-1]]
    assert as_lists(here) == as_lists(there)


@pytest.mark.parametrize("max_length", [0, 4])
def test_evaluation_in_batches_equals_the_evaluation_of_any_predictor(monkeypatch, max_length):
    monkeypatch.setattr(positions, "_SCORES_AT_ONCE", 30 * len(VOCABULARY))
    monkeypatch.setattr(counter, "_POSITIONS_AT_ONCE", 50)  # several parts
    text = typed_by(9, seed=4)
    in_batches = batch_evaluation.evaluate(ngram(), text, max_length=max_length)
    expected = predictor_evaluation.evaluate(ngram(), text, max_length=max_length)
    for name, values in expected.sums.items():
        assert in_batches.sums[name].tobytes() == values.tobytes(), name
    assert in_batches.slices.keys() == expected.slices.keys()
    np.testing.assert_equal(in_batches.slices, expected.slices)


def test_empty_text_has_no_parts():
    text = typed_text.TypedText("nothing", ("p",), ([],))
    counts = predictor_evaluation.evaluate(ngram(), text)
    assert counts.sums["tokens"].tolist() == [0]
    assert counts.slices["place"] == {}


def test_agrees_with_the_sums_of_federated_evaluation():
    import tensorflow as tf

    predictor, text = cifg(), typed_by(1, seed=3)
    actual = predictor_evaluation.evaluate(predictor, text).sums
    totals = collections.Counter()
    for message in text.messages[0]:
        ids = np.array([[1, *VOCABULARY.encode(message)]], np.int32)
        targets = np.array([*VOCABULARY.encode(message), EOS], np.int32)
        logits = predictor.log_probabilities(ids)
        losses = -logits[np.arange(len(targets)), targets]
        sums = tensorflow_sums.batch_sums(tf.constant(logits), losses, targets, 1)
        totals.update({name: value.numpy() for name, value in sums.items()})
    for name, value in totals.items():
        assert actual[name][0] == pytest.approx(value, rel=1e-5), name


def test_very_long_message_is_cut(monkeypatch):
    monkeypatch.setattr(positions, "LONGEST_MESSAGE", 7)
    text = typed_text.TypedText("long", ("p",), ([["i"] * 50, ["am"]],))
    sums = predictor_evaluation.evaluate(ngram(), text).sums
    assert sums["tokens"].tolist() == [7 + 2]
    with pytest.raises(ValueError, match="`max_length`"):
        predictor_evaluation.evaluate(ngram(), text, max_length=-1)


def test_progress_ends_at_the_total():
    calls = []
    text = typed_by(3, seed=4)
    predictor_evaluation.evaluate(ngram(), text, progress=lambda *call: calls.append(call))
    done, total = calls[-1]
    assert done == total == text.num_words + sum(map(len, text.messages))


def test_a_model_may_have_another_vocabulary():
    small = Vocabulary(VOCABULARY.words[:9], NormalisationRules())
    text = typed_by(4, seed=5)
    ids = [np.array(small.encode(m)) for person in text.messages for m in person]
    predictor = NGramPredictor.train(ids, small)
    actual = predictor_evaluation.evaluate(predictor, text).sums
    full = predictor_evaluation.evaluate(ngram(), text).sums
    np.testing.assert_array_equal(actual["characters"], full["characters"])
    assert actual["oov_tokens"].sum() > full["oov_tokens"].sum()


def test_keras_predictor_is_a_predictor_and_keeps_state_only_for_the_same_context():
    predictor = cifg()
    assert isinstance(predictor, Predictor)
    contexts = [[], ["i"], ["i", "am"], ["i", "am"], ["how"], ["how", "zzz", "you"], []]
    for context in contexts:
        ids = np.array([[1, *VOCABULARY.encode(context)]], np.int32)
        scores = predictor.log_probabilities(ids)[-1]
        best = sorted(range(NUM_SPECIAL, len(VOCABULARY)), key=lambda i: (-scores[i], i))[:3]
        strip = predictor.suggest(context)
        assert [word for word, _ in strip] == [VOCABULARY.words[i] for i in best]
        np.testing.assert_allclose([p for _, p in strip], np.exp(scores[best]), rtol=1e-4)


def test_keras_predictor_after_new_weights():
    predictor = cifg()
    before = predictor.suggest(["i"])
    predictor.model.embedding.assign(-predictor.model.embedding)
    predictor.reset()
    assert predictor.suggest(["i"]) == cifg_with(predictor.model).suggest(["i"]) != before


def cifg_with(model):
    return KerasPredictor(model, VOCABULARY)


def test_model_and_vocabulary_must_belong_together():
    model = build_model("cifg", vocabulary_size=9, seed=1, units=2, embedding_size=2)
    with pytest.raises(ValueError, match="different runs"):
        KerasPredictor(model, VOCABULARY)


def test_text_file_becomes_blocks_of_lines(tmp_path):
    path = tmp_path / "phrases.txt"
    path.write_text("One two\r\n\nthree\nfour five\nsix\n!!\nseven\n", encoding="utf-8")
    text = text_blocks.read_text(
        path, lambda lines: [line.lower().replace("!", "").split() for line in lines], blocks=2
    )
    assert text.messages == ([["one", "two"], ["three"]], [["four", "five"], ["six"], ["seven"]])
    assert (text.clients, text.name, text.pseudo_users, text.num_words) == (
        ("lines 1-2", "lines 3-5"),
        "phrases.txt",
        True,
        7,
    )


@pytest.mark.parametrize(
    "content, match",
    [(b"ok\n\xff\xfe\n", r":2: is not UTF-8"), (b"", "0 messages"), (b"one\n", "1 messages")],
)
def test_text_files_that_cannot_be_used(tmp_path, content, match):
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=match):
        text_blocks.read_text(path, lambda lines: [line.split() for line in lines], blocks=5)
    path.unlink()
    with pytest.raises(DataError, match="cannot be read"):
        text_blocks.read_text(path, lambda lines: [], blocks=5)
    with pytest.raises(ValueError, match="`blocks` must be >= 2"):
        text_blocks.read_text(path, lambda lines: [], blocks=1)


def test_truncated_gzip_is_one_error(tmp_path):
    import gzip

    path = tmp_path / "text.txt.gz"
    path.write_bytes(gzip.compress(b"a b\nc d\n" * 100)[:20])
    with pytest.raises(DataError, match="not a complete gzip"):
        text_blocks.read_text(path, lambda lines: [], blocks=2)


def test_metrics_match_their_definitions():
    sums = predictor_evaluation.evaluate(ngram(), typed_by(6, seed=7)).sums
    for name, metric in METRICS.items():
        value = metric_value(sums, name)
        assert math.isfinite(value)
        if metric.is_share:
            assert 0 <= value <= 1, name
    assert sums["typed_counted"].sum() > sums["typed_free"].sum()


def test_keystrokes_with_spaces_match_typing_with_spaces():
    """A user types a space after every word: a tap is one keystroke, including the space."""
    predictor, text = ngram(), typed_by(4, seed=8)
    keys = typed = 0
    for message in (message for person in text.messages for message in person):
        for position, word in enumerate(message):
            if is_mask(word):
                continue
            length = next(
                (
                    length
                    for length in range(len(word))
                    if word
                    in [w for w, _ in predictor.suggest(message[:position], word[:length], 3)]
                ),
                len(word),
            )
            keys += length + 1  # the tap or the space
            typed += len(word) + 1
    sums = predictor_evaluation.evaluate(predictor, text).sums
    assert metric_value(sums, "kss_with_spaces") == pytest.approx(1 - keys / typed)


def position_slices(message, position, reference):
    """Returns the slices of a position (except confidence) by their definitions."""
    word = message[position] if position < len(message) else None
    slices = {
        "place": next(
            label
            for least, label in (
                (20, "21st and later"),
                (10, "11th to 20th"),
                (5, "6th to 10th"),
                (1, "2nd to 5th"),
                (0, "first word"),
            )
            if position >= least
        ),
        "length": next(
            label
            for least, label in (
                (21, "21 and more"),
                (11, "11 to 20"),
                (6, "6 to 10"),
                (3, "3 to 5"),
                (1, "1 or 2 words"),
            )
            if len(message) >= least
        ),
    }
    if word is not None:
        rank = reference.index(word) if word in reference else None
        slices["frequency"] = (
            "out of vocabulary"
            if rank is None
            else ("100 most frequent" if rank < 100 else "to rank 1,000")
        )
    return slices


def test_slices_match_counts_of_their_positions():
    words = [f"w{i}" for i in range(130)]
    vocabulary = Vocabulary((*SPECIAL_WORDS, *words), NormalisationRules())
    rng = np.random.default_rng(0)
    messages = tuple(
        [rng.choice([*words, "zzz"], rng.integers(1, 25)).tolist() for _ in range(4)]
        for _ in range(3)
    )
    text = typed_text.TypedText("t", ("a", "b", "c"), messages)
    predictor = NGramPredictor.train([np.arange(4, 134)], vocabulary, order=2)
    reference = [*reversed(words)]  # an order of frequency other than the predictor's ids
    counts = predictor_evaluation.evaluate(
        predictor, text, reference=Vocabulary((*SPECIAL_WORDS, *reference), NormalisationRules())
    )
    expected = {family: collections.Counter() for family in ("place", "length", "frequency")}
    for owner, person in enumerate(messages):
        for message in person:
            for position in range(len(message) + 1):
                for family, label in position_slices(message, position, reference).items():
                    expected[family][label, owner] += 1
    for family, positions_of in expected.items():
        actual = {
            (label, owner): count
            for label, sums in counts.slices[family].items()
            for owner, count in enumerate(sums["tokens"])
            if count
        }
        assert actual == positions_of, family
    for family in ("place", "length", "confidence"):  # these slices cover all positions
        for name in SLICE_SUMS:
            parts = sum(sums[name] for sums in counts.slices[family].values())
            np.testing.assert_allclose(parts, counts.sums[name], err_msg=f"{family} {name}")
    for label, sums in counts.slices["confidence"].items():
        least, maximum = (float(word) for word in label.split(" to "))
        mean = sums["confidence"].sum() / sums["impressions"].sum()
        assert least - 0.01 <= mean <= maximum + 0.01
