"""Raw text of TFF client data to the batches that our models train on.

For datasets as TFF has them (`tff.simulation.datasets.stackoverflow`, `shakespeare`, or any
`ClientData` with a feature of text) and for TFF's own learning processes:

    train, _, _ = tff.simulation.datasets.stackoverflow.load_data()
    vocabulary = client_data_vocabulary(train, feature="tokens", size=10_000)
    batches = client_data_batches(train, vocabulary, feature="tokens", batch_size=16, max_length=20)
    process.next(state, [batches.create_tf_dataset_for_client(c) for c in cohort])

The words are those that `prepare` makes of the same text. TFF's workers have no operators for
text: what a person typed is cut in this process, when the person's dataset is made.
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
    """What is asked of a `tff.simulation.datasets.ClientData`."""

    @property
    def client_ids(self) -> Sequence[str]: ...

    def create_tf_dataset_for_client(self, client_id: str) -> tf.data.Dataset: ...

    def preprocess(self, preprocess_fn: Preprocess) -> Data: ...


def client_data_vocabulary(
    client_data: ClientData[Data],
    *,
    feature: str,
    size: int,
    min_people: int = 1,
    rules: NormalisationRules | None = None,
) -> Vocabulary:
    """The words that these people typed most.

    Args:
      client_data: Its examples are mappings.
      feature: Name of the scalar string that holds a message.
      size: Rows of the vocabulary, the four special ones included; >= 5.
      min_people: People who typed a word at least, >= 1; words of fewer would tell who they are.
      rules: How text becomes words; None: the usual ones.

    Raises:
      ValueError: A size is out of range, or no word is left.
    """
    if min_people < 1:
        raise ValueError(f"`min_people` must be >= 1, got {min_people}.")
    rules = rules or NormalisationRules()
    messages_of, found = _reader(rules, feature), WordCounts()
    for client in client_data.client_ids:
        messages = messages_of(client_data.create_tf_dataset_for_client(client))
        found.add_person(word for words in messages for word in words)
    counts = {word: n for word, n in found.counts.items() if found.people[word] >= min_people}
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
    messages_of = _reader(vocabulary.rules, feature)

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


def _reader(
    rules: NormalisationRules, feature: str
) -> Callable[[tf.data.Dataset], list[list[str]]]:
    """Words of each message of a dataset that has any."""
    signature = [tf.TensorSpec([None], tf.string)]
    tokens_of = tf.function(Tokenizer(rules).tokens, input_signature=signature)  # traced once

    def read(dataset: tf.data.Dataset) -> list[list[str]]:
        texts = [example[feature].numpy() for example in dataset]  # `map` would trace anew
        chunks = [texts[i : i + _TEXTS_AT_ONCE] for i in range(0, len(texts), _TEXTS_AT_ONCE)]
        tokens = [words for chunk in chunks for words in tokens_of(tf.constant(chunk)).to_list()]
        return [[word.decode() for word in words] for words in tokens if words]

    return read
