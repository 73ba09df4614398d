"""Batches: every message once per epoch, correct padding and cuts, reproducible by seed."""

import collections.abc
import gc
import itertools
import weakref

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard.data import batches, elements
from tff_keyboard.data.vocabulary import BOS, EOS, PAD

EXAMPLES = st.lists(
    st.lists(st.integers(3, 50), min_size=1, max_size=12).map(lambda ids: np.array(ids, np.int32)),
    max_size=20,
)
SEEDS = st.lists(st.integers(0, 2**32), min_size=1, max_size=3)


def expected_row(ids, max_length):
    return tuple([BOS, *ids.tolist(), EOS][: max_length + 1])


def expected_rows(ids, max_length, long_messages):
    """Returns the sequences of a message: each but the last has `max_length` targets."""
    sequence, rows = [BOS, *ids.tolist(), EOS], []
    while len(sequence) > 1:
        rows.append(tuple(sequence[: max_length + 1]))
        sequence = sequence[max_length:]
    return rows[:1] if long_messages == "truncate" else rows


def rows_of(batch):
    """Returns the unpadded rows of a batch.

    Checks that padding is only on the right, and no longer than the longest row requires.
    """
    assert batch.dtype == np.int32
    rows = []
    for row in batch:
        length = int((row != PAD).sum())
        assert (row[:length] != PAD).all()
        rows.append(tuple(row[:length].tolist()))
    assert max(map(len, rows)) == batch.shape[1]
    return rows


class Recorder(collections.abc.Sequence):
    """A sequence that records which positions were looked up."""

    def __init__(self, items):
        self.items = items
        self.places = []

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        self.places.append(index)
        return self.items[index]


@hypothesis.given(
    examples=EXAMPLES,
    batch_size=st.integers(1, 6),
    max_length=st.integers(1, 14),
    max_examples=st.integers(0, 25),
    epochs=st.integers(1, 3),
    seed=SEEDS,
    long_messages=st.sampled_from(["continue", "truncate", "split"]),
)
@examples(100)
def test_epoch_has_each_chosen_sequence_once(
    examples, batch_size, max_length, max_examples, epochs, seed, long_messages
):
    options = {
        **{"batch_size": batch_size, "max_length": max_length, "max_examples": max_examples},
        **{"epochs": epochs, "seed": seed, "long_messages": long_messages},
    }
    result = batches.client_batches(examples, **options)
    looked_up = Recorder(examples)
    lengths = [len(ids) for ids in examples]
    same = batches.client_batches(looked_up, **options, lengths=lengths)
    assert [batch.tolist() for batch in same] == [batch.tolist() for batch in result]
    assert len(looked_up.places) <= (max_examples or len(looked_up.places))  # and no others
    everything = collections.Counter(
        row for ids in examples for row in expected_rows(ids, max_length, long_messages)
    )
    available = sum(everything.values())
    num_chosen = min(max_examples or available, available)
    per_epoch = -(-num_chosen // batch_size)
    assert len(result) == epochs * per_epoch
    counts = []
    for epoch in range(epochs):
        part = result[epoch * per_epoch : (epoch + 1) * per_epoch]
        sizes = sorted(len(batch) for batch in part)
        assert sizes[1:] == [batch_size] * (len(sizes) - 1)  # the first may be smaller
        counts.append(collections.Counter(row for batch in part for row in rows_of(batch)))
        assert sum(counts[-1].values()) == num_chosen
    assert all(count == counts[0] for count in counts)  # the same messages in every epoch
    assert counts[0] <= everything
    if num_chosen == available:
        assert counts[0] == everything


def many(count=200, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.integers(4, 90, size=rng.integers(1, 30)).astype(np.int32) for _ in range(count)]


ARGUMENTS = dict(batch_size=8, max_length=20, max_examples=100, epochs=2, seed=[1, 2, 3])


def flat(result):
    return [batch.tolist() for batch in result]


def test_pure_and_seeded():
    first = flat(batches.client_batches(many(), **ARGUMENTS))
    assert first == flat(batches.client_batches(many(), **ARGUMENTS))
    for seed in ([1, 2, 4], [2, 2, 3], [1, 2], [1, 2, 3, 0]):
        other = flat(batches.client_batches(many(), **(ARGUMENTS | {"seed": seed})))
        assert first != other
    half = len(first) // 2
    assert first[:half] != first[half:]  # epochs are in different orders


def test_shape_of_one_message():
    (batch,) = batches.client_batches(
        [np.array([7, 8], np.int32)], **(ARGUMENTS | {"epochs": 1, "max_length": 20})
    )
    assert batch.tolist() == [[BOS, 7, 8, EOS]]
    cut = ARGUMENTS | {"epochs": 1, "max_length": 2, "long_messages": "truncate"}
    (batch,) = batches.client_batches([np.array([7, 8], np.int32)], **cut)
    assert batch.tolist() == [[BOS, 7, 8]]  # targets 7 and 8; the end is cut


@hypothesis.given(
    ids=st.lists(st.integers(4, 50), min_size=1, max_size=30), length=st.integers(1, 9)
)
@examples(50)
def test_every_target_is_trained_once_after_its_previous_word(ids, length):
    """No end at a cut and no beginning after it, but no target is lost."""
    result = batches.client_batches(
        [np.array(ids, np.int32)],
        batch_size=1,
        max_length=length,
        max_examples=0,
        epochs=1,
        seed=[0],
    )
    (rows,) = zip(*(rows_of(batch) for batch in result), strict=True)
    pairs = [pair for row in rows for pair in itertools.pairwise(row)]
    sequence = [BOS, *ids, EOS]
    assert sorted(pairs) == sorted(itertools.pairwise(sequence))
    assert sum(row.count(BOS) for row in rows) == sum(row.count(EOS) for row in rows) == 1


def test_evaluation_batches_are_sorted_and_whole():
    examples = many()
    result = batches.evaluation_batches(examples, batch_size=64, max_length=20)
    rows = [row for batch in result for row in rows_of(batch)]
    assert collections.Counter(rows) == collections.Counter(
        expected_row(ids, 20) for ids in examples
    )
    assert [len(row) for row in rows] == sorted(len(row) for row in rows)
    assert flat(result) == flat(batches.evaluation_batches(examples, batch_size=64, max_length=20))
    some = batches.evaluation_batches(examples, batch_size=64, max_length=20, max_examples=10)
    assert sum(map(len, some)) == 10


def test_no_examples_give_no_batches_and_an_empty_dataset():
    assert batches.client_batches([], **ARGUMENTS) == []
    assert batches.evaluation_batches([], batch_size=4, max_length=4) == []
    dataset = batches.batches_dataset([])
    assert list(dataset) == []
    assert dataset.element_spec == batches.ELEMENT_SPEC


def test_dataset_gives_the_batches_split_into_input_and_target():
    result = batches.client_batches(many(), **ARGUMENTS)
    dataset = batches.batches_dataset(result)
    assert dataset.element_spec == batches.ELEMENT_SPEC
    elements = list(dataset.as_numpy_iterator())
    assert len(elements) == len(result)
    for element, batch in zip(elements, result, strict=True):
        assert list(element) == ["x", "y"]
        np.testing.assert_array_equal(element["x"], batch[:, :-1])
        np.testing.assert_array_equal(element["y"], batch[:, 1:])


def test_tf_data_does_not_rewrite_the_dataset_of_every_client():
    options = batches.batches_dataset(batches.client_batches(many(), **ARGUMENTS)).options()
    assert options.experimental_optimization.apply_default_optimizations is False
    assert options.autotune.enabled is False


def test_serialised_dataset_is_little_more_than_its_numbers():
    result = batches.client_batches(many(2000), **(ARGUMENTS | {"max_examples": 0}))
    graph = tf.raw_ops.DatasetToGraphV2(
        input_dataset=tf.data.experimental.to_variant(batches.batches_dataset(result))
    )
    numbers = 4 * sum(batch.size for batch in result) + 24 * len(result)
    assert len(graph.numpy()) < numbers + 5000


@pytest.mark.parametrize(
    "wrong, says",
    [
        (dict(batch_size=0), "`batch_size` must be >= 1"),
        (dict(max_length=0), "`max_length` must be >= 1"),
        (dict(max_examples=-1), "`max_examples` must be >= 0"),
        (dict(epochs=0), "`epochs` must be >= 1"),
    ],
)
def test_rejects(wrong, says):
    with pytest.raises(ValueError, match=says):
        batches.client_batches(many(3), **(ARGUMENTS | wrong))


@hypothesis.given(
    clients=st.lists(
        st.tuples(st.lists(st.integers(1, 40), max_size=6), st.integers(0, 9)), max_size=5
    ),
    max_length=st.integers(1, 12),
    long_messages=st.sampled_from(["continue", "truncate"]),
)
@hypothesis.example(
    clients=[([40, 1], 1), ([], 3), ([3] * 6, 5)], max_length=7, long_messages="truncate"
)
@examples(60)
def test_epoch_sizes_match_batches_of_each_client(clients, max_length, long_messages):
    cut = {"max_length": max_length, "long_messages": long_messages}
    lengths = [np.array(client_lengths, np.int32) for client_lengths, _ in clients]
    limits = [limit for _, limit in clients]
    names = [7 * position + 3 for position in range(len(clients))]
    expected = []
    for client_lengths, limit, name in zip(lengths, limits, names, strict=True):
        messages = [np.full(words, 4, np.int32) for words in client_lengths]
        made = batches.client_batches(
            messages, batch_size=2, max_examples=limit, epochs=1, seed=(5, 2, name), **cut
        )
        targets = sum(int(np.count_nonzero(batch[:, 1:])) for batch in made)
        expected.append([sum(map(len, made)), targets])
    actual = batches.epoch_sizes(lengths, limits=limits, seed=(5, 2), names=names, **cut)
    assert actual.shape == (len(clients), 2)
    assert actual.tolist() == expected


def test_known_elements_are_those_of_an_iterator():
    parts = [np.arange(12, dtype=np.int32).reshape(3, 4), np.array([[7, 8]], np.int32)]
    dataset = batches.batches_dataset(parts)
    assert elements.is_known(dataset)
    expected = list(dataset.as_numpy_iterator())
    parts[0][:] = 0  # the dataset keeps its numbers
    actual = elements.numpy_elements(dataset)
    assert len(actual) == len(expected) == 2
    for one, other in zip(actual, expected, strict=True):
        assert list(one) == list(other) == ["x", "y"]
        for name, values in other.items():
            np.testing.assert_array_equal(one[name], values)
            assert one[name].dtype == values.dtype


def test_a_dataset_that_is_made_of_a_known_one_is_read():
    dataset = batches.batches_dataset([np.array([[4, 5, 6]], np.int32)] * 3)
    for other, size in ((dataset.take(1), 1), (dataset.repeat(2), 6)):
        assert not elements.is_known(other)
        assert len(elements.numpy_elements(other)) == size


def test_known_elements_do_not_keep_a_dataset():
    dataset = batches.batches_dataset([np.array([[4, 5, 6]], np.int32)])
    reference = weakref.ref(dataset)
    del dataset
    gc.collect()
    assert reference() is None
