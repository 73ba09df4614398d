"""Converts the raw text of TFF client data to the batches that the models train on.

For datasets in TFF's format (`tff.simulation.datasets.stackoverflow`, `shakespeare`, or any
`ClientData` with a text feature) and for TFF's own learning processes:

    train, _, _ = tff.simulation.datasets.stackoverflow.load_data()
    vocabulary = client_data_vocabulary(train, feature="tokens", size=10_000)
    batches = client_data_batches(train, vocabulary, feature="tokens", batch_size=16, max_length=20)
    process.next(state, [batches.create_tf_dataset_for_client(c) for c in cohort])

The words are the same as those `prepare` finds in the text. Text is tokenised in this process, when
a client's dataset is created. Datasets can be created inside graphs, too: in a `model_fn` or a
`tff.tensorflow.computation`. If a graph gets the client's id as a tensor, as in
`batches.dataset_computation`, it contains the batches of all clients.
"""

import concurrent.futures
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import tensorflow as tf

from tff_keyboard.data import batches
from tff_keyboard.data.text.tokenizer import Tokenizer
from tff_keyboard.data.text.word_counts import WordCounts
from tff_keyboard.data.vocabulary import NormalisationRules, Vocabulary

_TEXTS_AT_ONCE = 1024

_MAX_BYTES = 2**29  # of all clients in one graph, whose limit is 2 GiB

_T = TypeVar("_T")


class ClientData(Protocol):
    """The part of `tff.simulation.datasets.ClientData` that this module uses."""

    @property
    def client_ids(self) -> Sequence[str]: ...

    def create_tf_dataset_for_client(self, client_id: str) -> tf.data.Dataset: ...

    @classmethod
    def from_clients_and_tf_fn(
        cls, client_ids: Iterable[str], serializable_dataset_fn: Callable[[Any], tf.data.Dataset]
    ) -> Any: ...


def client_data_vocabulary(
    client_data: ClientData,
    *,
    feature: str,
    size: int,
    min_clients: int = 1,
    rules: NormalisationRules | None = None,
) -> Vocabulary:
    """Builds a vocabulary of the most frequent words of these clients.

        train, _, _ = tff.simulation.datasets.stackoverflow.load_data()
        vocabulary = client_data_vocabulary(train, feature="tokens", size=10_000)

    Args:
      client_data: Client data whose examples are mappings.
      feature: Name of the scalar string feature with a message.
      size: Rows of the vocabulary, including the four special ones; >= 5.
      min_clients: Minimum number of clients that typed a word, >= 1. Words of fewer clients could
        identify them.
      rules: How text becomes words; None means the default rules.

    Raises:
      ValueError: If a size is out of range, or no word is left.
    """
    if min_clients < 1:
        raise ValueError(f"`min_clients` must be >= 1, got {min_clients}.")
    rules = rules or NormalisationRules()
    messages_of, word_counts = message_reader(rules, feature), WordCounts()
    for client in client_data.client_ids:
        messages = messages_of(client_data.create_tf_dataset_for_client(client))
        word_counts.add_client(word for words in messages for word in words)
    counts = {
        word: count
        for word, count in word_counts.counts.items()
        if word_counts.clients[word] >= min_clients
    }
    return Vocabulary.from_counts(counts, size, rules)


def client_data_batches(
    client_data: ClientData,
    vocabulary: Vocabulary,
    *,
    feature: str,
    batch_size: int,
    max_length: int,
    max_examples: int = 0,
    seed: int = 0,
) -> Any:
    """Returns the same clients with batches instead of texts.

        batches = client_data_batches(train, vocabulary, feature="tokens", batch_size=16,
        max_length=20)
        dataset = batches.create_tf_dataset_for_client(batches.client_ids[0])

    Args:
      client_data: Client data whose examples are mappings.
      vocabulary: Encodes the words. Its rules determine the tokenisation.
      feature: Name of the scalar string feature with a message. Messages without a word are left
        out.
      batch_size: Sequences in a batch, as in `batches.client_batches`.
      max_length: Maximum number of targets in a sequence, as in `batches.client_batches`.
      max_examples: Maximum number of sequences of a client, as in `batches.client_batches`.
      seed: Seed of the order of a client's sequences.

    Returns:
      A `tff.simulation.datasets.ClientData` whose elements are `batches.ELEMENT_SPEC`.

    Raises:
      ValueError: If a size is out of range.
    """
    messages_of = message_reader(vocabulary.rules, feature)

    def batches_of(client_id: str) -> list[np.ndarray]:
        messages = messages_of(client_data.create_tf_dataset_for_client(client_id))
        return batches.client_batches(
            [np.array(vocabulary.encode(words), np.int32) for words in messages],
            batch_size=batch_size,
            max_length=max_length,
            max_examples=max_examples,
            epochs=1,
            seed=[seed],
        )

    @functools.cache
    def all_clients() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the arguments of `flat_dataset` for all clients, and the bounds of each one."""
        clients = [batches_of(client_id) for client_id in client_data.client_ids]
        places, flat = batches.flatten([batch for client in clients for batch in client])
        return places, flat, np.cumsum([0, *map(len, clients)])

    def dataset_fn(client_id: str | tf.Tensor) -> tf.data.Dataset:
        """Returns the batches of a client. In a graph, the id may be a string tensor."""
        name = client_id
        if not isinstance(name, str) and tf.executing_eagerly():
            name = name.numpy().decode()
        if isinstance(name, str):
            return batches.batches_dataset(_eagerly(functools.partial(batches_of, name)))
        positions, flat, bounds = _eagerly(all_clients)
        if flat.nbytes > _MAX_BYTES:
            raise ValueError(
                f"The batches of {len(client_data.client_ids)} clients have {flat.nbytes:,} bytes, "
                "but a graph that gets the id of a client as a tensor contains them all, at most "
                f"{_MAX_BYTES:,}. Call `create_tf_dataset_for_client` with a string instead."
            )
        is_client = tf.equal(client_id, tf.constant(client_data.client_ids))
        check = tf.debugging.Assert(tf.reduce_any(is_client), ["There is no client", client_id])
        with tf.control_dependencies([check]):
            index = tf.argmax(is_client)
        first, end = tf.gather(bounds, index), tf.gather(bounds, index + 1)
        return batches.flat_dataset(tf.constant(positions)[first:end], flat)

    return client_data.from_clients_and_tf_fn(list(client_data.client_ids), dataset_fn)


def _eagerly(function: Callable[[], _T]) -> _T:
    """Calls a function outside of the graph that is being built, if there is one.

    A new thread has no graph. (`tf.init_scope` stays in the graph of a TFF computation.)
    """
    if tf.executing_eagerly():
        return function()
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        return thread.submit(function).result()


def message_reader(
    rules: NormalisationRules, feature: str
) -> Callable[[tf.data.Dataset], list[list[str]]]:
    """Returns a function from a client's dataset to the words of each message that has any."""
    signature = [tf.TensorSpec([None], tf.string)]
    tokens_of = tf.function(Tokenizer(rules).tokens, input_signature=signature)  # traced once

    def read(dataset: tf.data.Dataset) -> list[list[str]]:
        texts = [example[feature].numpy() for example in dataset]  # `map` would trace anew
        chunks = [texts[i : i + _TEXTS_AT_ONCE] for i in range(0, len(texts), _TEXTS_AT_ONCE)]
        tokens = [words for chunk in chunks for words in tokens_of(tf.constant(chunk)).to_list()]
        return [[word.decode() for word in words] for words in tokens if words]

    return read
