"""Baselines on the command line, and the models that they train."""

import numpy as np
import pytest

from tests.support.ngram_fakes import messages_of, vocabulary_of
from tff_keyboard.data.vocabulary import BOS
from tff_keyboard.predictors.ngram import ngram_file, ngram_spec
from tff_keyboard.predictors.ngram.ngram_predictor import NGramPredictor
from tff_keyboard.predictors.ngram.ngram_spec import NGramSpec


@pytest.mark.parametrize(
    "word, expected",
    [
        ("ngram", NGramSpec(5)),
        ("unigram", NGramSpec(1)),
        ("ngram:2", NGramSpec(2)),
        ("ngram:1.25M", NGramSpec(5, num_ngrams=1_250_000)),
        ("ngram:12k", NGramSpec(5, num_ngrams=12_000)),
        ("ngram:1.44MB", NGramSpec(5, num_bytes=1_440_000)),
        ("ngram:0.3kB", NGramSpec(5, num_bytes=300)),
    ],
)
def test_reads_orders_and_sizes(word, expected):
    assert ngram_spec.parse(word) == expected


@pytest.mark.parametrize(
    "word",
    [
        "ngram:",
        "ngram:0",
        "ngram:12",
        "ngram:1.44",
        "ngram:-1M",
        "ngram:1GB",
        "ngram:1mb",
        "ngram:1e6k",
        "ngram:1.M",
        "ngram:x",
        "1.25M",
    ],
)
def test_invalid_spec_is_one_error(word):
    with pytest.raises(ValueError, match=r"is not an n-gram.*ngram:1\.44MB"):
        ngram_spec.parse(word)


def test_trains_the_requested_model(tmp_path):
    messages, vocabulary = messages_of(0, 2000, size=200), vocabulary_of(200)
    whole, none = ngram_spec.train(NGramSpec(), messages, vocabulary)
    assert none is None
    pruned, none = ngram_spec.train(NGramSpec(num_ngrams=3000), messages, vocabulary)
    assert none is None
    assert sum(pruned.model.num_ngrams) == 3000 < sum(whole.model.num_ngrams)
    small, data = ngram_spec.train(NGramSpec(num_bytes=9000), messages, vocabulary)
    assert 8900 < len(data) <= 9000
    (tmp_path / "keyboard.ngram").write_bytes(data)
    again = NGramPredictor(*ngram_file.load(tmp_path / "keyboard.ngram"))
    ids = np.array([[BOS, 4, 5, 6]])
    np.testing.assert_array_equal(again.log_probabilities(ids), small.log_probabilities(ids))
    assert again.suggest(["w00001", "w00002"]) == small.suggest(["w00001", "w00002"])


def test_strip_matches_the_scores():
    vocabulary = vocabulary_of(200)
    small, _ = ngram_spec.train(NGramSpec(num_bytes=9000), messages_of(0, 2000, 200), vocabulary)
    for ids in ([], [4], [4, 5, 9, 4, 6, 8]):
        words = [vocabulary.words[i] for i in ids]
        scores = small.log_probabilities(np.array([[BOS, *ids]]))[-1]
        for prefix in ("", "w0001", "w00013", "x"):
            fitting = [i for i in range(4, 200) if vocabulary.words[i].startswith(prefix)]
            best = sorted(fitting, key=lambda i: (-scores[i], i))[:3]
            strip = small.suggest(words, prefix)
            assert [word for word, _ in strip] == [vocabulary.words[i] for i in best]
            np.testing.assert_allclose([p for _, p in strip], np.exp(scores[best]), rtol=1e-5)
