"""Evaluation of a model on the raw text of TFF client data."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.data.text.python_tokenizer import PythonTokenizer
from tff_keyboard.data.vocabulary import SPECIAL_WORDS, NormalisationRules, Vocabulary
from tff_keyboard.evaluation import run_evaluation
from tff_keyboard.evaluation.client_data_evaluation import evaluate_client_data
from tff_keyboard.evaluation.counts.typed_text import TypedText
from tff_keyboard.evaluation.results.result import ModelFacts
from tff_keyboard.models import build_model
from tff_keyboard.predictors.keras_predictor import KerasPredictor

VOCABULARY = Vocabulary((*SPECIAL_WORDS, "see", "you", "later"), NormalisationRules())
TEXTS = {"ann": ["See you LATER!", "?!"], "bob": ["..."], "cem": ["you see"]}


def client_data(texts):
    return tff.simulation.datasets.TestClientData({c: {"text": t} for c, t in texts.items()})


@pytest.fixture(scope="module")
def model():
    return build_model("cifg", vocabulary_size=len(VOCABULARY), seed=1, units=4, embedding_size=3)


def test_sums_are_those_of_the_tokenised_text_without_empty_messages_and_clients(model):
    actual = evaluate_client_data(model, VOCABULARY, client_data(TEXTS), feature="text")
    tokenize = PythonTokenizer(VOCABULARY.rules).tokenize
    typed = tuple(tokenize(texts) for texts in (["see you later"], ["you see"]))
    expected = run_evaluation.evaluate_named(
        KerasPredictor(model, VOCABULARY),
        ModelFacts(name="cifg"),
        TypedText("held_out", ("ann", "cem"), typed),
    )
    for name, values in expected.sums.items():
        np.testing.assert_allclose(actual.sums[name], values, rtol=1e-5, atol=1e-5)
    assert actual.metrics["recall_at_3_no_eos"].clients == 2
    assert actual.text.people == ("0", "1")  # no client ids


def test_client_data_without_a_word_raises(model):
    with pytest.raises(ValueError, match="'text'"):
        evaluate_client_data(model, VOCABULARY, client_data({"bob": ["..."]}), feature="text")


def test_a_keras_model_has_the_figures_of_its_probabilities():
    """A model that always predicts the same word hits where this word was typed."""
    size = len(VOCABULARY)
    keras = tf.keras.Sequential(
        [
            tf.keras.layers.Embedding(size, 2),
            tf.keras.layers.Dense(size, kernel_initializer="zeros"),
        ]
    )
    keras(tf.ones([1, 1], tf.int32))
    keras.layers[-1].bias.assign(np.log([1, 1, 1, 1, 2, 5, 3]))  # "you" first, then "later"
    found = evaluate_client_data(keras, VOCABULARY, client_data(TEXTS), feature="text")
    assert found.metrics["recall_at_1_no_eos"].value == pytest.approx(2 / 5)
    p = np.array([2, 5, 3, 5, 2]) / 14
    ends = 2 * -np.log(1 / 14)
    nll = (-np.log(p).sum() + ends) / 7
    assert found.metrics["perplexity"].value == pytest.approx(np.exp(nll), rel=1e-5)


def test_a_model_that_is_no_next_word_model_raises():
    with pytest.raises(ValueError, match="must be a tf"):
        evaluate_client_data(5, VOCABULARY, client_data(TEXTS), feature="text")
