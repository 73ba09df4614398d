"""Batches from the raw text of TFF client data are those of a client store with the same text."""

import collections

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from hypothesis import strategies as st

from tests.data.text.test_text import TEXTS
from tests.support.examples import examples
from tff_keyboard.data import batches
from tff_keyboard.data.client_data import client_data_batches, client_data_vocabulary
from tff_keyboard.data.text.python_tokenizer import PythonTokenizer
from tff_keyboard.data.vocabulary import SPECIAL_WORDS, NormalisationRules, Vocabulary
from tff_keyboard.models import build_model

WORDS = ("see", "you", "later", "don't", "😂", "straße", "7:30", "é")
VOCABULARY = Vocabulary((*SPECIAL_WORDS, *WORDS), NormalisationRules())
PIECES = st.lists(st.one_of(st.sampled_from(WORDS), TEXTS), max_size=8).map(" ".join)


def client_data(texts):
    """Returns client data with several features, as in TFF's Stack Overflow."""

    def dataset(client):
        rows = tf.constant([text.encode() for text in texts[client]], tf.string)
        return tf.data.Dataset.from_tensor_slices(
            collections.OrderedDict(score=tf.zeros_like(rows), tokens=rows)
        )

    return tff.simulation.datasets.ClientData.from_clients_and_tf_fn(sorted(texts), dataset)


def batches_of(texts, **sizes):
    actual = client_data_batches(client_data({"a": texts}), VOCABULARY, feature="tokens", **sizes)
    dataset = actual.create_tf_dataset_for_client("a")
    assert dataset.element_spec == batches.ELEMENT_SPEC
    return [(element["x"].numpy(), element["y"].numpy()) for element in dataset]


@hypothesis.given(texts=st.lists(PIECES, max_size=6), max_length=st.integers(1, 9))
@examples(30)
def test_batches_match_those_of_a_client_store(texts, max_length):
    tokens = PythonTokenizer(VOCABULARY.rules).tokenize(texts)
    ids = [np.array(VOCABULARY.encode(words), np.int32) for words in tokens if words]
    expected = batches.client_batches(
        ids, batch_size=3, max_length=max_length, max_examples=4, epochs=1, seed=[7]
    )
    pairs = batches_of(texts, batch_size=3, max_length=max_length, max_examples=4, seed=7)
    assert len(pairs) == len(expected)
    for (x, y), batch in zip(pairs, expected, strict=True):
        np.testing.assert_array_equal(x, batch[:, :-1])
        np.testing.assert_array_equal(y, batch[:, 1:])


def test_message_is_bos_words_eos():
    ((x, y),) = batches_of(["See you 😂, whoever!"], batch_size=9, max_length=9)
    assert (x.tolist(), y.tolist()) == ([[1, 4, 5, 8, 3]], [[4, 5, 8, 3, 2]])


@pytest.mark.parametrize("sizes", [{"batch_size": 0}, {"max_length": 0}])
def test_a_size_out_of_range(sizes):
    with pytest.raises(ValueError, match=f"`{next(iter(sizes))}` must be >= 1, got 0"):
        batches_of(["see"], **({"batch_size": 1, "max_length": 4} | sizes))


def test_vocabulary_contains_the_most_frequent_words():
    data = client_data({"a": ["See you later", "see!", ""], "b": ["you, you :)"], "c": []})
    actual = client_data_vocabulary(data, feature="tokens", size=6)
    assert actual == Vocabulary((*SPECIAL_WORDS, "you", "see"), NormalisationRules())
    many = client_data_vocabulary(data, feature="tokens", size=99, min_clients=2)
    assert many.words == (*SPECIAL_WORDS, "you")
    rules = NormalisationRules(mode="whitespace", lowercase=False)
    cased = client_data_vocabulary(data, feature="tokens", size=99, rules=rules)
    assert (set(cased.words), cased.rules) == (
        {*SPECIAL_WORDS, "See", "see!", "you", "you,", ":)", "later"},
        rules,
    )
    with pytest.raises(ValueError, match="`min_clients` must be >= 1, got 0"):
        client_data_vocabulary(data, feature="tokens", size=9, min_clients=0)
    with pytest.raises(ValueError, match="no words to build"):
        client_data_vocabulary(data, feature="tokens", size=9, min_clients=3)


@pytest.mark.slow
def test_trains_with_tffs_own_learning_process():
    def model_fn():
        return tff.learning.models.from_keras_model(
            build_model("gru", vocabulary_size=12, seed=1, units=4, embedding_size=4),
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            input_spec=batches.ELEMENT_SPEC,
        )

    texts = {"a": ["see you later"] * 5, "b": ["don't", "you 😂"]}
    actual = client_data_batches(
        client_data(texts), VOCABULARY, feature="tokens", batch_size=2, max_length=4
    )
    process = tff.learning.algorithms.build_weighted_fed_avg(
        model_fn, tff.learning.optimizers.build_sgdm(0.1)
    )
    cohort = [actual.create_tf_dataset_for_client(client) for client in actual.client_ids]
    metrics = process.next(process.initialize(), cohort).metrics
    assert metrics["client_work"]["train"]["num_examples"] == 7


TEXTS_OF_TWO = {"ann": ["see you later", "you 😂", "see see see"], "bob": ["don't", "é 7:30"]}


@pytest.fixture(name="two_clients", scope="module")
def _two_clients():
    return client_data_batches(
        client_data(TEXTS_OF_TWO), VOCABULARY, feature="tokens", batch_size=2, max_length=3
    )


def counted(dataset):
    """Returns numbers that depend on each element of a dataset and their order, in a graph."""

    def add(state, element):
        rows = tf.reduce_sum(element["x"] * 100 + element["y"], axis=1)
        return state * 3 + tf.reduce_sum(
            tf.cast(rows, tf.int64) * tf.range(1, tf.size(rows) + 1, dtype=tf.int64)
        )

    return dataset.reduce(tf.constant(0, tf.int64), add)


@pytest.mark.parametrize("client", ["ann", "bob"])
def test_datasets_are_made_inside_graphs(two_clients, client):
    expected = int(counted(two_clients.create_tf_dataset_for_client(client)))

    @tf.function(autograph=False)
    def by_name():
        return counted(two_clients.create_tf_dataset_for_client(client))

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([], tf.string)])
    def by_tensor(name):
        return counted(two_clients.serializable_dataset_fn(name))

    @tff.tensorflow.computation
    def of_tff():
        return counted(two_clients.create_tf_dataset_for_client(client))

    @tff.tensorflow.computation(np.str_)
    def of_tff_by_tensor(name):
        return counted(two_clients.serializable_dataset_fn(name))

    assert int(by_name()) == expected
    assert int(by_tensor(tf.constant(client))) == expected
    assert int(of_tff()) == expected
    assert int(of_tff_by_tensor(client)) == expected
    assert int(counted(two_clients.serializable_dataset_fn(tf.constant(client)))) == expected
    with pytest.raises(tf.errors.InvalidArgumentError, match="There is no client"):
        by_tensor(tf.constant("eve"))


def test_all_clients_in_one_graph_are_bounded(two_clients, monkeypatch):
    monkeypatch.setattr("tff_keyboard.data.client_data._MAX_BYTES", 8)
    with pytest.raises(ValueError, match=r"batches of 2 clients have .* bytes, .* with a string"):
        tf.function(two_clients.serializable_dataset_fn).get_concrete_function(
            tf.TensorSpec([], tf.string)
        )


@pytest.mark.slow
def test_a_process_takes_names_of_clients(two_clients):
    """The idioms of TFF: a spec from a dataset in `model_fn`, and rounds of names of clients."""

    def model_fn():
        return tff.learning.models.from_keras_model(
            build_model("gru", vocabulary_size=12, seed=1, units=4, embedding_size=4),
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            input_spec=two_clients.create_tf_dataset_for_client("ann").element_spec,
        )

    process = tff.learning.algorithms.build_weighted_fed_avg(
        model_fn, tff.learning.optimizers.build_sgdm(0.1)
    )
    of_names = tff.simulation.compose_dataset_computation_with_learning_process(
        two_clients.dataset_computation, process
    )
    names = ["ann", "bob"]
    by_name = of_names.next(of_names.initialize(), names)
    datasets = [two_clients.create_tf_dataset_for_client(name) for name in names]
    expected = process.next(process.initialize(), datasets)
    for values, others in zip(
        process.get_model_weights(by_name.state).trainable,
        process.get_model_weights(expected.state).trainable,
        strict=True,
    ):
        np.testing.assert_allclose(values, others, rtol=1e-5)
    # 3 targets a sequence: 2 + 1 + 2 of ann, 1 + 1 of bob
    assert by_name.metrics["client_work"]["train"]["num_examples"] == 7
