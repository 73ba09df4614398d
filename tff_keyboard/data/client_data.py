"""Converts the raw text of TFF client data to the batches that the models train on.

For datasets in TFF's format (`tff.simulation.datasets.stackoverflow`, `shakespeare`, or any
`ClientData` with a text feature) and for TFF's own learning processes:

    train, _, _ = tff.simulation.datasets.stackoverflow.load_data()
    vocabulary = client_data_vocabulary(train, feature="tokens", size=10_000)
    batches = client_data_batches(train, vocabulary, feature="tokens", batch_size=16, max_length=20)
    process.next(state, [batches.create_tf_dataset_for_client(c) for c in cohort])

The words are the same as those `prepare` finds in the text. Text is tokenised in
this process, when a client's dataset is created.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import numpy as np
import tensorflow as tf

from tff_keyboard.data import batches
from tff_keyboard.data.text.tokenizer import Tokenizer
from tff_keyboard.data.text.word_counts import WordCounts
from tff_keyboard.data.vocabulary import NormalisationRules, Vocabulary

_TEXTS_AT_ONCE = 1024

Preprocess = Callable[[tf.data.Dataset], tf.data.Dataset]
Data = TypeVar("Data", covariant=True)


class ClientData(Protocol[Data]):
    """The part of `tff.simulation.datasets.ClientData` that this module uses."""

    @property
    def client_ids(self) -> Sequence[str]: ...

    def create_tf_dataset_for_client(self, client_id: str) -> tf.data.Dataset: ...

    def preprocess(self, preprocess_fn: Preprocess) -> Data: ...


def client_data_vocabulary(
    client_data: ClientData[Data],
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
    messages_of, found = message_reader(rules, feature), WordCounts()
    for client in client_data.client_ids:
        messages = messages_of(client_data.create_tf_dataset_for_client(client))
        found.add_client(word for words in messages for word in words)
    counts = {word: n for word, n in found.counts.items() if found.clients[word] >= min_clients}
    return Vocabulary.from_counts(counts, size, rules)


def client_data_batches(
    client_data: ClientData[Data],
    vocabulary: Vocabulary,
    *,
    feature: str,
    batch_size: int,
    max_length: int,
    max_examples: int = 0,
    seed: int = 0,
) -> Data:
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
      Client data whose elements are `batches.ELEMENT_SPEC`.

    Raises:
      ValueError: If a size is out of range.
    """
    messages_of = message_reader(vocabulary.rules, feature)

    def batched(dataset: tf.data.Dataset) -> tf.data.Dataset:
        examples = [np.array(vocabulary.encode(words), np.int32) for words in messages_of(dataset)]
        return batches.batches_dataset(
            batches.client_batches(
                examples,
                batch_size=batch_size,
                max_length=max_length,
                max_examples=max_examples,
                epochs=1,
                seed=[seed],
            )
        )

    return client_data.preprocess(batched)


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
