"""Batches of one client: messages of word ids to padded arrays, and those to tf.data.

A message becomes the sequence `[BOS] + ids + [EOS]`. One with more than `max_length` targets goes
on in further sequences,

    [BOS a b c]  [c d e f]  [f EOS]        of [BOS a b c d e f EOS], max_length 3

so that each target is trained once: no end stands where nobody ended a message, no begin where
nobody began one. (`long_messages="keep"` takes the first sequence alone.) A batch is
`[sequences, time + 1]`, padded on the right with PAD to its longest sequence; a model sees
`x = batch[:, :-1]` and predicts `y = batch[:, 1:]`. All of it is a pure function of the arguments,
because a resumed run must repeat it exactly; tf.data only hands batches over.
"""

import collections
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tff_keyboard.data import generators
from tff_keyboard.data.vocabulary import BOS, EOS, PAD
from tff_keyboard.packs.elements import as_it_is

ELEMENT_SPEC = collections.OrderedDict(
    x=tf.TensorSpec([None, None], tf.int32), y=tf.TensorSpec([None, None], tf.int32)
)

_CHOOSE, _SHUFFLE = 0, 1  # keep the random streams of a client apart


def client_batches(
    examples: Sequence[np.ndarray],
    *,
    batch_size: int,
    max_length: int,
    max_examples: int,
    epochs: int,
    seed: Sequence[int],
    long_messages: str = "continue",
    lengths: Sequence[int] | None = None,
) -> list[np.ndarray]:
    """The batches a client trains on in one round.

    Args:
      examples: `[words]` ids of each message, without BOS and EOS.
      batch_size: Sequences in a batch; the last one of an epoch may have fewer. >= 1.
      max_length: Targets of a sequence, at most; >= 1.
      max_examples: Sequences used, drawn without replacement where there are more, the
        same ones in every epoch; 0 means all.
      epochs: Passes, each in a new order; >= 1.
      seed: Numbers >= 0 that name this client and round.
      long_messages: What `data.long_messages` says: with "keep" only the first sequence of a
        message is used.
      lengths: Words of each message, where known: then only those used are looked up in `examples`.

    Returns:
      `[sequences, time + 1]` int32 arrays with time <= max_length, in order; none without examples.

    Raises:
      ValueError: An argument is out of range.
    """
    _check_sizes(batch_size=batch_size, max_length=max_length, epochs=epochs)
    if long_messages == "keep":
        places = [(index, 0) for index in range(len(examples))]
    else:
        places = [
            (index, start)
            for index, words in enumerate(map(len, examples) if lengths is None else lengths)
            for start in range(0, words + 1, max_length)
        ]
    chosen = choose_examples(len(places), max_examples, seed)
    sequences = [
        _sequence(examples[i], max_length, start) for i, start in map(places.__getitem__, chosen)
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
    """How much an epoch of `client_batches` is for each client, from lengths alone.

    `lengths` are words of each message of each client, [messages], without BOS and EOS; `limits`
    the clients' `max_examples`, and `names` their numbers, 32 bits: client i's seed is `[*seed,
    names[i]]`. Sequences and targets of each client are returned, [clients, 2] int64.
    """
    whole = np.concatenate([*lengths, np.zeros(0, np.int64)]).astype(np.int64) + 1
    ends = np.cumsum([len(own) for own in lengths], dtype=np.int64)
    if long_messages == "keep":
        counts, used = np.ones_like(whole), np.minimum(whole, max_length)
    else:
        counts, used = -(-whole // max_length), whole
    sizes = np.stack([_sums(counts, ends), _sums(used, ends)], axis=1)
    # Only who draws among its sequences needs a generator, which costs more than all the rest.
    most = np.asarray(limits, np.int64)
    drawing = np.flatnonzero((most > 0) & (most < sizes[:, 0]))
    if not drawing.size:
        return sizes
    targets = np.repeat(np.minimum(used, max_length), counts)
    if long_messages != "keep":
        targets[np.cumsum(counts) - 1] = whole - (counts - 1) * max_length
    starts = np.cumsum(sizes[:, 0]) - sizes[:, 0]
    own = generators.generators(seed, np.asarray(names)[drawing], [_CHOOSE])
    totals, most = sizes[drawing, 0], most[drawing]
    chosen = np.concatenate(list(map(_draw, own, totals.tolist(), most.tolist())))
    chosen += np.repeat(starts[drawing], most)
    sizes[drawing] = np.stack([most, _sums(targets[chosen], np.cumsum(most))], axis=1)
    return sizes


def _sums(values: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Sums of consecutive parts, by the place where each ends."""
    return np.diff(np.concatenate([[0], np.cumsum(values)])[ends], prepend=0)


def choose_examples(num_examples: int, max_examples: int, seed: Sequence[int]) -> np.ndarray:
    """Positions of the messages a client uses, increasing: all, or `max_examples` drawn by seed.

    `max_examples` is >= 0, where 0 means all; the numbers >= 0 of `seed` name client and round.
    """
    if max_examples < 0:
        raise ValueError(f"`max_examples` must be >= 0, got {max_examples}.")
    if not 0 < max_examples < num_examples:
        return np.arange(num_examples)
    rng = np.random.default_rng([*seed, _CHOOSE])
    return np.sort(_draw(rng, num_examples, max_examples))


def _draw(rng: np.random.Generator, num_examples: int, size: int) -> np.ndarray:
    """Different positions below `num_examples`, in no order."""
    return rng.choice(num_examples, size=size, replace=False)


def evaluation_batches(
    examples: Sequence[np.ndarray],
    *,
    batch_size: int,
    max_length: int,
    max_examples: int = 0,
    seed: Sequence[int] = (0,),
) -> list[np.ndarray]:
    """The batches a client is evaluated on: every message once, cut, sorted by length.

    Sums over tokens do not depend on the order, so it is chosen for speed.

    Args:
      examples: `[words]` ids of each message, without BOS and EOS.
      batch_size: Messages in a batch, >= 1; larger is faster.
      max_length: Targets of a message, at most; >= 1.
      max_examples: Messages used, drawn by `seed` where there are more; 0 means all.
      seed: Numbers >= 0 that name this client.

    Returns:
      As `client_batches`.

    Raises:
      ValueError: An argument is out of range.
    """
    _check_sizes(batch_size=batch_size, max_length=max_length)
    chosen = choose_examples(len(examples), max_examples, seed)
    sequences = sorted((_sequence(examples[index], max_length) for index in chosen), key=len)
    starts = range(0, len(sequences), batch_size)
    return [_pad(sequences[start : start + batch_size]) for start in starts]


def split(batch: np.ndarray) -> collections.OrderedDict:
    """What a model sees of a batch [messages, time + 1] and what it predicts: `ELEMENT_SPEC`."""
    return collections.OrderedDict(x=batch[:, :-1], y=batch[:, 1:])


def batches_dataset(batches: Sequence[np.ndarray]) -> tf.data.Dataset:
    """Hands batches to TFF.

    TFF serialises the graph of every client's dataset in every round, so it is kept tiny: one flat
    constant, and one function, traced once a process, that cuts a batch out of it. docs/data.md has
    the timings.

    Args:
      batches: `[messages, time + 1]` int32 arrays.

    Returns:
      Elements `OrderedDict(x=[messages, time], y=[messages, time])` of `ELEMENT_SPEC`.
    """
    sizes = np.array([batch.shape for batch in batches], dtype=np.int64).reshape(-1, 2)
    ends = np.cumsum(sizes[:, 0] * sizes[:, 1])
    # [batches, 3]: where a batch starts in the flat array, its rows, its columns.
    places = np.column_stack([ends - sizes[:, 0] * sizes[:, 1], sizes])
    flat = np.concatenate([np.zeros([0], np.int32), *(batch.ravel() for batch in batches)])
    places_variant = tf.raw_ops.TensorSliceDataset(
        components=[tf.constant(places)], output_shapes=[tf.TensorShape([3])]
    )
    variant = tf.raw_ops.MapDataset(
        input_dataset=places_variant,
        other_arguments=[tf.constant(flat.astype(np.int32))],
        f=_cut.get_concrete_function(),
        output_types=[spec.dtype for spec in ELEMENT_SPEC.values()],
        output_shapes=[spec.shape for spec in ELEMENT_SPEC.values()],
    )
    dataset = tf.data.experimental.from_variant(variant, ELEMENT_SPEC)
    return as_it_is(dataset)


@tf.function(
    input_signature=[tf.TensorSpec([3], tf.int64), tf.TensorSpec([None], tf.int32)], autograph=False
)
def _cut(place: tf.Tensor, flat: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    start, rows, columns = place[0], place[1], place[2]
    batch = tf.reshape(flat[start : start + rows * columns], [rows, columns])
    return batch[:, :-1], batch[:, 1:]


def _sequence(ids: np.ndarray, max_length: int, start: int = 0) -> np.ndarray:
    """At most `max_length` targets of `[BOS] + ids + [EOS]`, those behind place `start`."""
    whole = np.concatenate([[BOS], ids, [EOS]]).astype(np.int32)
    return whole[start : start + max_length + 1]


def _pad(sequences: Sequence[np.ndarray]) -> np.ndarray:
    batch = np.full([len(sequences), max(map(len, sequences))], PAD, dtype=np.int32)
    for row, sequence in zip(batch, sequences, strict=True):
        row[: len(sequence)] = sequence
    return batch


def _check_sizes(**sizes: int) -> None:
    for name, value in sizes.items():
        if value < 1:
            raise ValueError(f"`{name}` must be >= 1, got {value}.")
