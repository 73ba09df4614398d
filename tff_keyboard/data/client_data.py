"""Raw text of TFF client data to the batches that our models train on.

For datasets as TFF has them (`tff.simulation.datasets.stackoverflow`, `shakespeare`, or any
`ClientData` with a feature of text) and for TFF's own learning processes:

    train, _, _ = tff.simulation.datasets.stackoverflow.load_data()
    batches = client_data_batches(train, vocabulary, feature="tokens", batch_size=16, max_length=20)
    process.next(state, [batches.create_tf_dataset_for_client(c) for c in cohort])

The words are those that `prepare` makes of the same text. TFF's workers have no operators for
text: what a person typed is cut in this process, when the person's dataset is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

import numpy as np
import tensorflow as tf

from tff_keyboard.data import batches
from tff_keyboard.data.text.tokenizer import Tokenizer
from tff_keyboard.data.vocabulary import Vocabulary

_TEXTS_AT_ONCE = 1024

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
    max_examples: int = 0,
    seed: int = 0,
) -> Data:
    """The same people, each with batches in place of texts.

    Args:
      client_data: Its examples are mappings.
      vocabulary: Encodes the words, which its rules cut.
      feature: Name of the scalar string that holds a message; one without a word is left out.
      batch_size: Sequences a batch, as in `batches.client_batches`.
      max_length: Tokens a sequence at most, as there.
      max_examples: Sequences a person at most, as there.
      seed: Seed of the order of a person's sequences.

    Returns:
      Client data whose elements are `batches.ELEMENT_SPEC`.

    Raises:
      ValueError: A size is out of range.
    """
    tokenizer = Tokenizer(vocabulary.rules)

    def text_of(example: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return example[feature]

    def batched(dataset: tf.data.Dataset) -> tf.data.Dataset:
        tokens = dataset.map(text_of).batch(_TEXTS_AT_ONCE).map(tokenizer.tokens)
        messages = [words for some in tokens for words in some.to_list() if words]
        examples = [
            np.array(vocabulary.encode(word.decode() for word in words), np.int32)
            for words in messages
        ]
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
