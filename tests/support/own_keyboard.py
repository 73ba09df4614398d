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


def fed_prox(
    model_fn, aggregator, server_optimizer, learning_rate: float = 0.5, strength: float = 0.01
):
    return tff.learning.algorithms.build_weighted_fed_prox(
        model_fn,
        proximal_strength=strength,
        client_optimizer_fn=tff.learning.optimizers.build_sgdm(learning_rate),
        server_optimizer_fn=server_optimizer,
        model_aggregator=aggregator,
        loop_implementation=tff.learning.LoopImplementation.DATASET_ITERATOR,
    )
