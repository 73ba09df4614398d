"""A user's file: a Keras model that streams, an aggregator and a client algorithm."""

import tensorflow as tf
import tensorflow_federated as tff

import tff_keyboard as tk


class Keyboard(tf.keras.Model):
    def __init__(self, vocabulary_size, units: int = 32, rate: float = 0.1):
        super().__init__()
        self.units = units
        self.embedding = tf.keras.layers.Embedding(vocabulary_size, units)
        self.cell = tf.keras.layers.GRUCell(units)
        self.recurrence = tf.keras.layers.RNN(self.cell, return_sequences=True)
        self.norm = tf.keras.layers.LayerNormalization()
        self.dropout = tk.models.Dropout(rate)
        self.logits = tf.keras.layers.Dense(vocabulary_size)

    def call(self, ids, training=None):
        hidden = self.recurrence(self.embedding(ids))
        return self.logits(self.dropout(self.norm(hidden), training=training))

    def initial_state(self, batch_size):
        return [tf.zeros([batch_size, self.units])]

    def step(self, ids, state):
        hidden, state = self.cell(self.embedding(ids), state)
        return self.logits(self.norm(hidden[:, None])[:, 0]), state


def clipped_mean(norm: float = 1.0):
    return tff.aggregators.clipping_factory(norm, tff.aggregators.MeanFactory())


class ProximalSgd(tff.learning.optimizers.Optimizer):
    def __init__(self, learning_rate, strength):
        self.learning_rate, self.strength = learning_rate, strength

    def initialize(self, specs):
        return tf.constant(True), tf.nest.map_structure(lambda w: tf.zeros(w.shape), specs)

    def next(self, state, weights, gradients):
        start = tf.nest.map_structure(lambda w, s: tf.where(state[0], w, s), weights, state[1])

        def step(w, g, s):
            return w - self.learning_rate * (tf.convert_to_tensor(g) + self.strength * (w - s))

        return (tf.constant(False), start), tf.nest.map_structure(step, weights, gradients, start)


def fed_prox(model_fn, learning_rate: float = 0.5, strength: float = 0.01):
    return tff.learning.templates.build_model_delta_client_work(
        model_fn,
        ProximalSgd(learning_rate, strength),
        client_weighting=tff.learning.ClientWeighting.NUM_EXAMPLES,
        loop_implementation=tff.learning.LoopImplementation.DATASET_ITERATOR,
    )
