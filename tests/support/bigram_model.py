"""The smallest model that TFF can train, its batches, and plain FedAvg on it."""

import collections
import functools

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

VOCABULARY = 7


INPUT_SPEC = collections.OrderedDict(
    x=tf.TensorSpec([None, None], tf.int32), y=tf.TensorSpec([None, None], tf.int32)
)


SGD = tff.learning.optimizers.build_sgdm


class BigramModel(tff.learning.models.VariableModel):
    """Logits = row of a table + bias. Two variables: two layers."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.table = tf.Variable(
            np.float32(rng.normal(size=[VOCABULARY, VOCABULARY])), name="table"
        )
        self.bias = tf.Variable(np.float32(rng.normal(size=[VOCABULARY])), name="bias")

    trainable_variables = property(lambda self: [self.table, self.bias])
    non_trainable_variables = property(lambda self: [])
    local_variables = property(lambda self: [])
    input_spec = property(lambda self: INPUT_SPEC)

    @tf.function
    def predict_on_batch(self, x, training=True):
        return tf.gather(self.table, x) + self.bias

    @tf.function
    def forward_pass(self, batch_input, training=True):
        real = tf.cast(tf.not_equal(batch_input["y"], 0), tf.float32)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            batch_input["y"], self.predict_on_batch(batch_input["x"])
        )
        tokens = tf.reduce_sum(real)
        return tff.learning.models.BatchOutput(
            loss=tf.math.divide_no_nan(tf.reduce_sum(losses * real), tokens),
            predictions=None,
            num_examples=tf.cast(tokens, tf.int64),
        )

    @tf.function
    def report_local_unfinalized_metrics(self):
        return collections.OrderedDict()

    def metric_finalizers(self):
        return collections.OrderedDict()

    def reset_metrics(self):
        pass


def batches(seed, count=2, trap=None):
    rng = np.random.default_rng(seed)
    result = []
    for _ in range(count):
        ids = rng.integers(1, VOCABULARY, [3, 6]).astype(np.int32)
        ids[0, 4:] = 0
        ids[0, 0] = trap or 1
        result.append(collections.OrderedDict(x=ids[:, :-1], y=ids[:, 1:]))
    return result


def dataset(batch_list):
    """The batches as TFF wants them: of unknown size, no Python in the graph."""
    together = batch_list or batches(0, 1)
    stacked = collections.OrderedDict(
        (name, np.concatenate([batch[name] for batch in together])) for name in ("x", "y")
    )
    data = tf.data.Dataset.from_tensor_slices(stacked).batch(3).take(len(batch_list))
    unsized = tf.compat.v1.placeholder_with_default
    return data.map(
        lambda batch: collections.OrderedDict(
            (name, unsized(ids, [None, None])) for name, ids in batch.items()
        )
    )


@functools.cache
def fed_avg():
    return tff.learning.algorithms.build_weighted_fed_avg(BigramModel, SGD(0.5))


def step_of(process, clients):
    state = process.initialize()
    before = process.get_model_weights(state).trainable
    output = process.next(state, [dataset(c) for c in clients])
    after = process.get_model_weights(output.state).trainable
    return [np.asarray(b) - a for b, a in zip(before, after, strict=True)], output
