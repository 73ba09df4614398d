"""Evaluation of a model on the raw text of TFF client data."""

import numpy as np
import pytest
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
