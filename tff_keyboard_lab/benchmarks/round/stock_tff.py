"""The round as a TFF tutorial would write it: the reference of `benchmarks/round/round.py`.

Everything is Keras's and TFF's own: `Embedding(mask_zero)`, `RNN(cell)`, padded batches, logits at
every position, `SparseCategoricalCrossentropy`, `from_keras_model`, `build_weighted_fed_avg`, the
local execution context with its defaults. The model is the CIFG of Hard et al. 2018 of
`models/cifg.py`, written in the plainest way.
"""

import collections

import tensorflow as tf
import tensorflow_federated as tff

PAD = 0


class Cell(tf.keras.layers.Layer):
    """One step of the CIFG, with the state `[r [batch, dim], c [batch, units]]`."""

    def __init__(self, units, dim, **kwargs):
        super().__init__(**kwargs)
        self.units, self.dim = units, dim
        self.state_size = [dim, units]
        self.output_size = dim

    def build(self, shape):
        self.kernel = self.add_weight("kernel", [shape[-1], 3 * self.units])
        self.recurrent_kernel = self.add_weight("recurrent_kernel", [self.dim, 3 * self.units])
        self.bias = self.add_weight("bias", [3 * self.units])
        self.projection = self.add_weight("projection", [self.units, self.dim])

    def call(self, inputs, states):
        r, c = states
        gates = inputs @ self.kernel + r @ self.recurrent_kernel + self.bias
        i, g, o = tf.split(gates, 3, axis=-1)
        i, g, o = tf.sigmoid(i), tf.tanh(g), tf.sigmoid(o)
        c = (1.0 - i) * c + i * g
        r = (o * tf.tanh(c)) @ self.projection
        return r, [r, c]


class TiedModel(tf.keras.layers.Layer):
    """The model: ids [batch, time] -> logits [batch, time, vocabulary].

    The output layer is the embedding.
    """

    def __init__(self, vocabulary_size, units, dim, **kwargs):
        super().__init__(**kwargs)
        self.embedding = tf.keras.layers.Embedding(vocabulary_size, dim, mask_zero=True)
        self.rnn = tf.keras.layers.RNN(Cell(units, dim), return_sequences=True)

    def call(self, ids):
        hidden = self.rnn(self.embedding(ids), mask=self.embedding.compute_mask(ids))
        return tf.matmul(hidden, self.embedding.embeddings, transpose_b=True)


def build_process(vocabulary_size, units, dim, learning_rate, loop):
    """Builds FedAvg with plain client SGD and server learning rate 1.

    Clients weigh by their messages. `loop` is a `tff.learning.LoopImplementation`.

    The loss is the mean over real targets, as ours: `ignore_class` is Keras's own way to do this.
    Trainable weights are in the order of `models/cifg.py`.
    """

    def model_fn():
        ids = tf.keras.Input([None], dtype=tf.int32)
        logits = TiedModel(vocabulary_size, units, dim)(ids)
        spec = tf.TensorSpec([None, None], tf.int32)
        return tff.learning.models.from_keras_model(
            tf.keras.Model(ids, logits),
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=PAD),
            input_spec=collections.OrderedDict(x=spec, y=spec),
        )

    return tff.learning.algorithms.build_weighted_fed_avg(
        model_fn,
        tff.learning.optimizers.build_sgdm(learning_rate),
        tff.learning.optimizers.build_sgdm(1.0),
        loop_implementation=loop,
    )
