"""Builds a client's batches: padded arrays from messages of word ids, and tf.data from arrays.

A message becomes the sequence `[BOS] + ids + [EOS]`. A message with more than `max_length` targets
continues in further sequences,

    [BOS a b c]  [c d e f]  [f EOS]        of [BOS a b c d e f EOS], max_length 3

so that each target is trained once, and BOS and EOS mark only real beginnings and ends of messages.
(`long_messages="truncate"` uses only the first sequence.) A batch is `[sequences, time + 1]`,
padded on the right with PAD to its longest sequence. A model sees `x = batch[:, :-1]` and predicts
`y = batch[:, 1:]`. The batches depend only on the arguments, because a resumed run must repeat them
exactly. tf.data only passes them on.
"""

import collections
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tff_keyboard.data import elements
from tff_keyboard.data.vocabulary import BOS, EOS, PAD

BATCH_SPEC = tf.TensorSpec([None, None], tf.int32)  # a batch, [sequences, time + 1]
# A batch that is split into inputs and targets, as models take it: `split`
ELEMENT_SPEC = collections.OrderedDict(
    x=tf.TensorSpec([None, None], tf.int32), y=tf.TensorSpec([None, None], tf.int32)
)

_CHOOSE, _SHUFFLE = 0, 1  # labels of a client's independent random streams


def client_batches(
    messages: Sequence[np.ndarray],
    *,
    batch_size: int,
    max_length: int,
    max_examples: int,
    epochs: int,
    seed: Sequence[int],
    long_messages: str = "continue",
    lengths: Sequence[int] | None = None,
) -> list[np.ndarray]:
    """Builds the batches that a client trains on in one round.

    >>> batches = client_batches([np.array([5, 6, 7])], batch_size=2, max_length=2, max_examples=0,
    ...                          epochs=1, seed=[1])
    >>> sorted(batches[0].tolist())
    [[1, 5, 6], [6, 7, 2]]

    Args:
      messages: `[words]` ids of each message, without BOS and EOS.
      batch_size: Sequences in a batch, >= 1. The last batch of an epoch may have fewer.
      max_length: Maximum number of targets in a sequence, >= 1.
      max_examples: Maximum number of sequences, drawn without replacement and the same in every
        epoch; 0 means all.
      epochs: Passes, each in a new order; >= 1.
      seed: Numbers >= 0 that identify this client and round.
      long_messages: The value of `data.long_messages`. With "truncate", only the first sequence of
        a message is used.
      lengths: Number of words of each message, if known. Then only the used messages are looked up
        in `messages`.

    Returns:
      `[sequences, time + 1]` int32 arrays with time <= max_length, in order; an empty list without
      messages.

    Raises:
      ValueError: If an argument is out of range.
    """
    _check_sizes(batch_size=batch_size, max_length=max_length, epochs=epochs)
    if long_messages == "truncate":
        sequence_starts = [(index, 0) for index in range(len(messages))]
    else:
        sequence_starts = [
            (index, start)
            for index, words in enumerate(map(len, messages) if lengths is None else lengths)
            for start in range(0, words + 1, max_length)
        ]
    sequence_ids = draw_positions(len(sequence_starts), max_examples, seed)
    sequences = [
        _sequence(messages[i], max_length, start)
        for i, start in map(sequence_starts.__getitem__, sequence_ids)
    ]
    batches: list[np.ndarray] = []
    for epoch in range(epochs):
        order = np.random.default_rng([*seed, _SHUFFLE, epoch]).permutation(len(sequences))
        rows = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
        batches.extend(_pad([sequences[index] for index in batch]) for batch in rows)
    return batches


def epoch_sizes(
    lengths: Sequence[np.ndarray],
    *,
    max_length: int,
    limits: Sequence[int],
    seed: Sequence[int],
    names: Sequence[int],
    long_messages: str = "continue",
) -> np.ndarray:
    """Computes the size of an epoch of `client_batches` for each client from message lengths.

    Args:
      lengths: Number of words of each message of each client, [messages], without BOS and EOS.
      max_length: As for `client_batches`.
      limits: The clients' `max_examples`.
      seed: Beginning of each client's seed: client i has the seed `[*seed, names[i]]`.
      names: 32-bit numbers of the clients.
      long_messages: As for `client_batches`.

    Returns:
      Sequences and targets of each client, [clients, 2] int64.
    """
    full_lengths = np.concatenate([*lengths, np.zeros(0, np.int64)]).astype(np.int64) + 1
    ends = np.cumsum([len(message_lengths) for message_lengths in lengths], dtype=np.int64)
    if long_messages == "truncate":
        counts, used = np.ones_like(full_lengths), np.minimum(full_lengths, max_length)
    else:
        counts, used = -(-full_lengths // max_length), full_lengths
    sizes = np.stack([_sums(counts, ends), _sums(used, ends)], axis=1)
    # Only clients that draw some of their sequences need a generator, which is the main cost.
    sequence_limits = np.asarray(limits, np.int64)
    drawing = np.flatnonzero((sequence_limits > 0) & (sequence_limits < sizes[:, 0]))
    if not drawing.size:
        return sizes
    targets = np.repeat(np.minimum(used, max_length), counts)
    if long_messages != "truncate":
        targets[np.cumsum(counts) - 1] = full_lengths - (counts - 1) * max_length
    starts = np.cumsum(sizes[:, 0]) - sizes[:, 0]
    totals, sequence_limits = sizes[drawing, 0], sequence_limits[drawing]
    sequence_ids = np.concatenate(
        [
            draw_positions(int(total), int(size), [*seed, names[i]])
            for i, total, size in zip(drawing, totals, sequence_limits, strict=True)
        ]
    )
    sequence_ids += np.repeat(starts[drawing], sequence_limits)
    sizes[drawing] = np.stack(
        [sequence_limits, _sums(targets[sequence_ids], np.cumsum(sequence_limits))], axis=1
    )
    return sizes


def _sums(values: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Returns the sums of consecutive parts, given the end of each part."""
    return np.diff(np.concatenate([[0], np.cumsum(values)])[ends], prepend=0)


def draw_positions(size: int, max_examples: int, seed: Sequence[int]) -> np.ndarray:
    """Returns increasing positions in [0, size): all, or `max_examples` drawn by `seed`, int64.

    `max_examples` >= 0; 0 means all. The numbers >= 0 in `seed` identify client and round.
    """
    if max_examples < 0:
        raise ValueError(f"`max_examples` must be >= 0, got {max_examples}.")
    if not 0 < max_examples < size:
        return np.arange(size)
    rng = np.random.default_rng([*seed, _CHOOSE])
    return np.sort(rng.choice(size, size=max_examples, replace=False))


def evaluation_batches(
    messages: Sequence[np.ndarray],
    *,
    batch_size: int,
    max_length: int,
    max_examples: int = 0,
    seed: Sequence[int] = (0,),
) -> list[np.ndarray]:
    """Builds the batches that a client is evaluated on: every message once, cut, sorted by length.

    Sums over tokens do not depend on the order, so it is chosen for speed.

    >>> messages = [np.array([5, 6, 7]), np.array([8])]
    >>> batches = evaluation_batches(messages, batch_size=2, max_length=2)
    >>> [batch.tolist() for batch in batches]
    [[[1, 5, 6], [1, 8, 2]]]

    Args:
      messages: `[words]` ids of each message, without BOS and EOS.
      batch_size: Messages in a batch, >= 1; larger is faster.
      max_length: Maximum number of targets in a message, >= 1.
      max_examples: Maximum number of messages, drawn by `seed`; 0 means all.
      seed: Numbers >= 0 that identify this client.

    Returns:
      Arrays as from `client_batches`.

    Raises:
      ValueError: If an argument is out of range.
    """
    _check_sizes(batch_size=batch_size, max_length=max_length)
    message_ids = draw_positions(len(messages), max_examples, seed)
    sequences = sorted((_sequence(messages[index], max_length) for index in message_ids), key=len)
    starts = range(0, len(sequences), batch_size)
    return [_pad(sequences[start : start + batch_size]) for start in starts]


def split(batch: np.ndarray | tf.Tensor) -> collections.OrderedDict:
    """Splits a batch [sequences, time + 1] into inputs and targets, as in `ELEMENT_SPEC`."""
    return collections.OrderedDict(x=batch[:, :-1], y=batch[:, 1:])


def batches_dataset(batches: Sequence[np.ndarray]) -> tf.data.Dataset:
    """Builds the dataset that passes batches to TFF.

    TFF serialises the graph of every client's dataset in every round, so the graph is small: one
    flat constant, and one function, traced once per process, that cuts a batch out of it.
    docs/data.md has the timings.

    >>> dataset = batches_dataset([np.array([[1, 5, 2]], np.int32)])
    >>> [element["y"].numpy().tolist() for element in dataset]
    [[[5, 2]]]

    Args:
      batches: `[messages, time + 1]` int32 arrays.

    Returns:
      Elements `OrderedDict(x=[messages, time], y=[messages, time])` of `ELEMENT_SPEC`.
    """
    places, flat = flatten(batches)
    dataset = flat_dataset(places, flat)
    if tf.executing_eagerly():
        parts = [flat[start : start + rows * columns] for start, rows, columns in places]
        arrays = [part.reshape(shape) for part, (_, *shape) in zip(parts, places, strict=True)]
        elements.remember(dataset, [split(batch) for batch in arrays])
    return dataset


def flatten(batches: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Joins batches to the arguments of `flat_dataset`."""
    sizes = np.array([batch.shape for batch in batches], dtype=np.int64).reshape(-1, 2)
    ends = np.cumsum(sizes[:, 0] * sizes[:, 1])
    places = np.column_stack([ends - sizes[:, 0] * sizes[:, 1], sizes])
    flat = np.concatenate([np.zeros([0], np.int32), *(batch.ravel() for batch in batches)])
    return places, flat.astype(np.int32)


def flat_dataset(places: np.ndarray | tf.Tensor, flat: np.ndarray | tf.Tensor) -> tf.data.Dataset:
    """Builds the dataset of `batches_dataset`.

    Args:
      places: [batches, 3] int64: start of each batch in `flat`, its rows, its columns.
      flat: [numbers] int32, the numbers of all batches.
    """
    places_variant = tf.raw_ops.TensorSliceDataset(
        components=[tf.convert_to_tensor(places)], output_shapes=[tf.TensorShape([3])]
    )
    variant = tf.raw_ops.MapDataset(
        input_dataset=places_variant,
        other_arguments=[tf.convert_to_tensor(flat)],
        f=_cut.get_concrete_function(),
        output_types=[spec.dtype for spec in ELEMENT_SPEC.values()],
        output_shapes=[spec.shape for spec in ELEMENT_SPEC.values()],
    )
    dataset = tf.data.experimental.from_variant(variant, ELEMENT_SPEC)
    return elements.as_it_is(dataset)


@tf.function(
    input_signature=[tf.TensorSpec([3], tf.int64), tf.TensorSpec([None], tf.int32)], autograph=False
)
def _cut(bounds: tf.Tensor, flat: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns ids and targets [rows, columns - 1] of a batch in `flat`.

    `bounds` are the start of the batch, its rows and its columns.
    """
    start, rows, columns = bounds[0], bounds[1], bounds[2]
    batch = tf.reshape(flat[start : start + rows * columns], [rows, columns])
    return batch[:, :-1], batch[:, 1:]


def _sequence(ids: np.ndarray, max_length: int, start: int = 0) -> np.ndarray:
    """Returns at most `max_length` targets of `[BOS] + ids + [EOS]`, from position `start` on."""
    sequence = np.concatenate([[BOS], ids, [EOS]]).astype(np.int32)
    return sequence[start : start + max_length + 1]


def _pad(sequences: Sequence[np.ndarray]) -> np.ndarray:
    batch = np.full([len(sequences), max(map(len, sequences))], PAD, dtype=np.int32)
    for row, sequence in zip(batch, sequences, strict=True):
        row[: len(sequence)] = sequence
    return batch


def _check_sizes(**sizes: int) -> None:
    for name, value in sizes.items():
        if value < 1:
            raise ValueError(f"`{name}` must be >= 1, got {value}.")
