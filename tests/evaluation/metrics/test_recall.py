"""Recall@k against a plain sort in Python."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard.evaluation.metrics import recall


def python_hits(logits, targets, k, masked, counted=None):
    """Sorts each row (ties: lower id first), drops masked ids, and checks the first k."""
    hits = 0
    for row, (scores, target) in enumerate(zip(logits, targets, strict=True)):
        ranked = sorted(range(len(scores)), key=lambda word: (-scores[word], word))
        shown = [word for word in ranked if word not in masked][:k]
        hits += target in shown and (counted is None or bool(counted[row]))
    return hits


@examples(60)
@given(st.integers(0, 2**31), st.integers(1, 5), st.integers(5, 12), st.integers(0, 20))
def test_matches_python(seed, k, vocabulary, n):
    rng = np.random.default_rng(seed)
    logits = rng.integers(-2, 3, [n, vocabulary]).astype(np.float32)  # many ties
    targets = rng.integers(1, vocabulary, n).astype(np.int32)
    counted = rng.integers(0, 2, n).astype(bool)
    ranked = recall.best_ids(tf.constant(logits), k)
    for masked in [(0, 1, 2, 3), (0, 1, 3), ()]:
        ours = recall.count_hits(ranked, tf.constant(targets), k=k, masked_ids=masked)
        assert int(ours) == python_hits(logits, targets, k, masked)
        ours = recall.count_hits(
            ranked, tf.constant(targets), k=k, masked_ids=masked, counted=tf.constant(counted)
        )
        assert int(ours) == python_hits(logits, targets, k, masked, counted)


def test_special_targets_are_never_hit():
    logits = tf.constant([[9.0, 8.0, 7.0, 6.0, 1.0, 0.0]] * 4)
    ranked = recall.best_ids(logits, 3)
    assert int(recall.count_hits(ranked, tf.constant([0, 1, 2, 3]), k=3)) == 0
    assert int(recall.count_hits(ranked, tf.constant([4, 4, 5, 4]), k=1)) == 3


def test_rejects_an_empty_strip():
    with pytest.raises(ValueError, match="`k` must be >= 1, got 0"):
        recall.best_ids(tf.zeros([1, 9]), 0)
