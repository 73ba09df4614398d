"""The audit task: a phrase that a model was trained on stands out, another does not."""

import numpy as np
import pytest
import tensorflow as tf

from tff_keyboard.data.vocabulary import NormalisationRules, Vocabulary
from tff_keyboard.models import build_model
from tff_keyboard.models.saved_model import save_model
from tff_keyboard.storage.errors import DataError, UsageError
from tff_keyboard_lab.commands import audit

PLANTED, OTHER = "w7 w30 w12 w41 w5", "w8 w22 w19 w2 w33"


@pytest.fixture(scope="module")
def model_path(tmp_path_factory):
    """Returns a tiny model that was trained on random words, and on one phrase again and again."""
    vocabulary = Vocabulary.from_counts(
        {f"w{i}": 100 - i for i in range(50)}, 54, NormalisationRules()
    )
    model = build_model("cifg", vocabulary_size=len(vocabulary), seed=0, units=16, embedding_size=8)
    rng = np.random.default_rng(0)
    phrase = np.array(vocabulary.encode(PLANTED.split()))
    texts = np.concatenate([rng.integers(4, 54, (30, 5)), np.repeat(phrase[None], 30, 0)])
    x = tf.constant(np.concatenate([np.ones((60, 1), int), texts[:, :-1]], 1), tf.int32)
    y = tf.constant(texts, tf.int32)
    optimizer = tf.keras.optimizers.Adam(0.03)
    for _ in range(60):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=model(x))
            )
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
    path = tmp_path_factory.mktemp("model") / "model"
    save_model(path, model, vocabulary)
    return path


@pytest.mark.slow
def test_a_planted_phrase_stands_out(model_path, tmp_path, capsys):
    phrases = tmp_path / "planted.txt"
    phrases.write_text(f"{PLANTED}\n\n{OTHER}\n")
    audit.run(audit.Options(model=model_path, phrases=phrases, random=1000))
    text = capsys.readouterr().out
    first, other = (line.split() for line in text.splitlines()[1:3])
    assert first[:4] == ["1", "5", ">=", "10.0"]
    assert other[0] == "3"
    assert float(other[2]) < 6
    assert "w7" not in text  # phrases are not printed


def test_words_that_the_model_does_not_know_are_refused(model_path, tmp_path):
    phrases = tmp_path / "planted.txt"
    phrases.write_text(f"{PLANTED}\nw1 nonsense w2\n")
    with pytest.raises(DataError, match=r"line 2: 1 of 3 words are not in"):
        audit.run(audit.Options(model=model_path, phrases=phrases))
    phrases.write_text("\n")
    with pytest.raises(DataError, match="has no phrases"):
        audit.run(audit.Options(model=model_path, phrases=phrases))
    with pytest.raises(DataError, match="No such file"):
        audit.run(audit.Options(model=model_path, phrases=tmp_path / "none"))


def test_options_that_do_not_fit_are_refused():
    with pytest.raises(UsageError, match="got 0"):
        audit.Options.parse("audit", ["--phrases=f"])
    with pytest.raises(UsageError, match="--phrases is required: File with"):
        audit.Options.parse("audit", ["a"])
