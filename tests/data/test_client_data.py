"""Raw text of TFF client data becomes the sequences that a client store of it would train."""

import collections

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from hypothesis import strategies as st

from tests.data.test_text import TEXTS
from tests.examples import examples
from tff_keyboard.data import batches
from tff_keyboard.data.client_data import client_data_batches
from tff_keyboard.data.text.python_tokenizer import PythonTokenizer
from tff_keyboard.data.vocabulary import PAD, SPECIAL_WORDS, NormalisationRules, Vocabulary
from tff_keyboard.models import build_model

WORDS = ("see", "you", "later", "don't", "😂", "straße", "7:30", "é")
VOCABULARY = Vocabulary((*SPECIAL_WORDS, *WORDS), NormalisationRules())
PIECES = st.lists(st.one_of(st.sampled_from(WORDS), TEXTS), max_size=8).map(" ".join)


def client_data(texts):
    """As TFF's Stack Overflow: more features than one."""

    def dataset(client):
        rows = tf.constant([text.encode() for text in texts[client]], tf.string)
        return tf.data.Dataset.from_tensor_slices(
            collections.OrderedDict(score=tf.zeros_like(rows), tokens=rows)
        )

    return tff.simulation.datasets.ClientData.from_clients_and_tf_fn(sorted(texts), dataset)


def batches_of(texts, **sizes):
    found = client_data_batches(client_data({"a": texts}), VOCABULARY, feature="tokens", **sizes)
    dataset = found.create_tf_dataset_for_client("a")
    assert dataset.element_spec == batches.ELEMENT_SPEC
    return [(element["x"].numpy(), element["y"].numpy()) for element in dataset]


def rows(pairs):
    """Each sequence without its padding."""
    whole = [np.concatenate([x[:, :1], y], axis=1) for x, y in pairs]
    return [tuple(row[row != PAD]) for batch in whole for row in batch]


@hypothesis.given(texts=st.lists(PIECES, max_size=6), max_length=st.integers(1, 9))
@examples(30)
def test_the_sequences_are_those_of_a_client_store(texts, max_length):
    tokens = PythonTokenizer(VOCABULARY.rules).tokenize(texts)
    ids = [np.array(VOCABULARY.encode(words), np.int32) for words in tokens if words]
    own = batches.client_batches(
        ids, batch_size=3, max_length=max_length, max_examples=0, epochs=1, seed=[0]
    )
    pairs = batches_of(texts, batch_size=3, max_length=max_length)
    expected = rows([(batch[:, :-1], batch[:, 1:]) for batch in own])
    assert sorted(rows(pairs)) == sorted(expected)  # `client_batches` shuffles
    assert [len(x) for x, _ in pairs] == [len(batch) for batch in own]
    assert all(np.array_equal(x[:, 1:], y[:, :-1]) for x, y in pairs)


def test_sequences_keep_the_order_of_the_text():
    pairs = batches_of(["See you later", "?!", "whatever you 😂"], batch_size=9, max_length=3)
    assert rows(pairs) == [(1, 4, 5, 6), (6, 2), (1, 3, 5, 8), (8, 2)]


@pytest.mark.parametrize("sizes", [{"batch_size": 0}, {"max_length": 0}])
def test_a_size_out_of_range(sizes):
    with pytest.raises(ValueError, match=f"`{next(iter(sizes))}` must be >= 1, got 0"):
        batches_of(["see"], **({"batch_size": 1, "max_length": 4} | sizes))


@pytest.mark.slow
def test_tffs_own_learning_process_takes_them():
    def model_fn():
        return tff.learning.models.from_keras_model(
            build_model("gru", vocabulary_size=12, seed=1, units=4, embedding_size=4),
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            input_spec=batches.ELEMENT_SPEC,
        )

    texts = {"a": ["see you later"] * 5, "b": ["don't", "you 😂"]}
    found = client_data_batches(
        client_data(texts), VOCABULARY, feature="tokens", batch_size=2, max_length=4
    )
    process = tff.learning.algorithms.build_weighted_fed_avg(
        model_fn, tff.learning.optimizers.build_sgdm(0.1)
    )
    cohort = [found.create_tf_dataset_for_client(client) for client in found.client_ids]
    metrics = process.next(process.initialize(), cohort).metrics
    assert metrics["client_work"]["train"]["num_examples"] == 7
