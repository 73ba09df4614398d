"""Models of a user, as in a file next to a config; `models/keras_next_word_model.py`."""

import tensorflow as tf

import tff_keyboard as tk

LAYERS = tf.keras.layers


def gru(vocabulary_size, units=8):
    """A plain Keras model, which reads a window."""
    return tf.keras.Sequential(
        [
            LAYERS.Embedding(vocabulary_size, units),
            LAYERS.GRU(units, return_sequences=True),
            LAYERS.Dense(vocabulary_size),
        ]
    )


def attention(vocabulary_size, seed, units=8, rate=0.25):
    """A functional model, with dropout and a window of its own."""
    tf.random.set_seed(seed)
    ids = tf.keras.Input([None], dtype=tf.int32)
    vectors = LAYERS.Embedding(vocabulary_size, units)(ids)
    mixed = LAYERS.MultiHeadAttention(2, 4)(vectors, vectors, use_causal_mask=True)
    mixed = tk.models.Dropout(rate)(LAYERS.LayerNormalization()(vectors + mixed))
    model = tf.keras.Model(ids, LAYERS.Dense(vocabulary_size)(mixed))
    model.window = 6
    return model


class Streaming(tf.keras.Model):
    """A subclass with `step`."""

    def __init__(self, vocabulary_size, units=8):
        super().__init__()
        self.units = units
        self.embedding = LAYERS.Embedding(vocabulary_size, units)
        self.cell = LAYERS.GRUCell(units)
        self.recurrence = LAYERS.RNN(self.cell, return_sequences=True)
        self.output_layer = LAYERS.Dense(vocabulary_size)

    def call(self, ids, training=None):
        return self.output_layer(self.recurrence(self.embedding(ids)))

    def initial_state(self, batch_size):
        return {"h": tf.zeros([batch_size, self.units])}

    def step(self, ids, state):
        hidden, (h,) = self.cell(self.embedding(ids), [state["h"]])
        return self.output_layer(hidden), {"h": h}


class Elman(tk.models.RecurrentModel):
    """A cell of step equations only: h = tanh(x + h R)."""

    def __init__(self, *, vocabulary_size, seed, units=8):
        super().__init__(
            vocabulary_size=vocabulary_size, state_size=[units], options={"units": units}
        )
        draw = tf.keras.initializers.RandomUniform(seed=seed)
        draw = "zeros" if seed is None else draw
        self.embedding = self.add_weight("embedding", [vocabulary_size, units], initializer=draw)
        self.recurrent_kernel = self.add_weight(
            "recurrent_kernel", [units, units], initializer=draw
        )

    @property
    def output_table(self):
        return self.embedding, None

    def embed(self, ids):
        return tf.gather(self.embedding, ids)

    def step_hidden(self, inputs, state):
        h = tf.tanh(inputs + tf.matmul(state[0], self.recurrent_kernel))
        return h, [h]
