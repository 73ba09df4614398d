"""Raw text of TFF client data to the batches that our models train on, in `tf.data`.

For datasets as TFF has them (`tff.simulation.datasets.stackoverflow`, `shakespeare`, or any
`ClientData` with a feature of text) and for TFF's own learning processes:

    train, _, _ = tff.simulation.datasets.stackoverflow.load_data()
    batches = client_data_batches(train, vocabulary, feature="tokens", batch_size=16, max_length=20)
    process.next(state, [batches.create_tf_dataset_for_client(c) for c in cohort])

The words are those that `prepare` makes of the same text, and the sequences those of
`batches.client_batches`, in the order of the text. A training of ours reads a client store, which
repeats to the bit and has been counted.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Protocol, TypeVar

import tensorflow as tf

from tff_keyboard.data.text.tokenizer import Tokenizer
from tff_keyboard.data.vocabulary import BOS, EOS, NUM_SPECIAL, OOV, PAD, Vocabulary

_TEXTS_AT_ONCE = 64

Preprocess = Callable[[tf.data.Dataset], tf.data.Dataset]
Data = TypeVar("Data", covariant=True)


class ClientData(Protocol[Data]):
    """What is asked of a `tff.simulation.datasets.ClientData`."""

    def preprocess(self, preprocess_fn: Preprocess) -> Data: ...


def client_data_batches(
    client_data: ClientData[Data],
    vocabulary: Vocabulary,
    *,
    feature: str,
    batch_size: int,
    max_length: int,
) -> Data:
    """The same people, each with batches in place of texts.

    Args:
      client_data: Its examples are mappings.
      vocabulary: Encodes the words, which its rules cut.
      feature: Name of the scalar string that holds a message.
      batch_size: Sequences in a batch, >= 1; the last one of a person may have fewer.
      max_length: Targets of a sequence, at most; >= 1.

    Returns:
      Client data whose elements are `batches.ELEMENT_SPEC`.

    Raises:
      ValueError: An argument is out of range.
    """
    for name, value in (("batch_size", batch_size), ("max_length", max_length)):
        if value < 1:
            raise ValueError(f"`{name}` must be >= 1, got {value}.")
    tokenizer = Tokenizer(vocabulary.rules)
    words = vocabulary.words[NUM_SPECIAL:]

    def text_of(example: collections.OrderedDict) -> tf.Tensor:
        return example[feature]

    def sequences(texts: tf.Tensor, table: tf.lookup.StaticHashTable) -> tf.data.Dataset:
        """Messages with a word, each between BOS and EOS."""
        tokens = tokenizer.tokens(texts)
        ids = tokens.with_values(table.lookup(tokens.values))
        ids = tf.ragged.boolean_mask(ids, ids.row_lengths() > 0)
        ends = tf.ones([ids.nrows(), 1], tf.int32)
        return tf.data.Dataset.from_tensor_slices(tf.concat([BOS * ends, ids, EOS * ends], axis=1))

    def windows(sequence: tf.RaggedTensor) -> tf.data.Dataset:
        """A message in parts of `max_length` targets."""
        starts = tf.data.Dataset.range(0, tf.size(sequence, tf.int64) - 1, max_length)
        return starts.map(lambda start: sequence[start : start + max_length + 1])

    def split(batch: tf.Tensor) -> collections.OrderedDict:
        return collections.OrderedDict(x=batch[:, :-1], y=batch[:, 1:])

    def batches(dataset: tf.data.Dataset) -> tf.data.Dataset:
        rows = tf.range(NUM_SPECIAL, NUM_SPECIAL + len(words))
        filled = tf.lookup.KeyValueTensorInitializer(tf.constant(words), rows)
        table = tf.lookup.StaticHashTable(filled, OOV)
        texts = dataset.map(text_of).batch(_TEXTS_AT_ONCE)
        parts = texts.flat_map(lambda some: sequences(some, table)).flat_map(windows)
        padding = tf.constant(PAD, tf.int32)
        return parts.padded_batch(batch_size, [None], padding).map(split)

    return client_data.preprocess(batches)
