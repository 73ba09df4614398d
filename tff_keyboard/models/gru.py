"""The client model of FedAtt: one GRU layer between an embedding and a softmax.

    x_t = E[w_t]
    u_t = sigmoid(x_t W_u + b_u + h_{t-1} R_u + s_u)             update
    q_t = sigmoid(x_t W_q + b_q + h_{t-1} R_q + s_q)             reset
    n_t = tanh(x_t W_n + b_n + q_t * (h_{t-1} R_n + s_n))        reset after the product
    h_t = u_t * h_{t-1} + (1 - u_t) * n_t
    logits_t = h_t T^T + a                                       T = E when tied

The cell is that of `torch.nn.GRU`, which the authors' code uses: reset after the product, two bias
vectors. Sizes in the paper: units = embedding = 300 (small, the default), 650 (medium), 1500
(large). Tying needs units = embedding. Dropout is applied to x_t and to h_t, as in the authors'
word language model.

Sources: Ji et al. 2019, section IV, https://arxiv.org/abs/1812.07108; cell: Cho et al. 2014.
Initial values follow the authors' code: embedding and output table uniform in [-0.1, 0.1], output
bias 0, all GRU weights uniform in [-1/sqrt(units), 1/sqrt(units)].
"""

import tensorflow as tf

from tff_keyboard.models.layers import recurrence
from tff_keyboard.models.layers.dropout import dropout
from tff_keyboard.models.layers.initialisers import uniform
from tff_keyboard.models.layers.tied_embedding import lookup, lookup_tied
from tff_keyboard.models.recurrent_model import RecurrentModel
from tff_keyboard.models.registry.gru import GruConfig
from tff_keyboard.parts.tables import documented_by


class GruCell:
    """The step above and its derivative, for `recurrence.run`.

    State `(h [.., units],)`; weights `(R [units, 3 units], s [3 units])`; `pre` is `x W + b`, with
    the gates in the order u, q, n.
    """

    def __init__(self, units: int):
        self.state_sizes = (units,)
        self.saved_sizes = (units, units, units, units)  # u, q, n, h R_n + s_n
        self.right_sizes = (3 * units,)  # gradient at h R + s

    def forward(self, pre, state, weights):
        (h,) = state
        recurrent_kernel, recurrent_bias = weights
        recurrent = tf.nn.bias_add(tf.matmul(h, recurrent_kernel), recurrent_bias)
        x_u, x_q, x_n = tf.split(pre, 3, axis=-1)
        r_u, r_q, r_n = tf.split(recurrent, 3, axis=-1)
        u, q = tf.sigmoid(x_u + r_u), tf.sigmoid(x_q + r_q)
        n = tf.tanh(x_n + q * r_n)
        h = n + u * (h - n)  # u * h + (1 - u) * n
        return (h,), (u, q, n, r_n)

    def factors(self, before, saved):
        (h_before,) = before
        u, q, n, r_n = saved
        to_u = tf.raw_ops.SigmoidGrad(y=u, dy=h_before - n)  # d h / d z_u
        to_n = tf.raw_ops.TanhGrad(y=n, dy=1.0 - u)  # d h / d z_n
        to_q = to_n * tf.raw_ops.SigmoidGrad(y=q, dy=r_n)  # d h / d z_q
        return u, tf.concat([to_u, to_q, to_n], axis=-1), tf.concat([to_u, to_q, to_n * q], -1)

    def backward(self, factors, d_state, weights):
        (d_h,) = d_state
        u, to_pre, to_recurrent = factors
        recurrent_kernel, _ = weights
        d_h_thrice = tf.concat([d_h, d_h, d_h], axis=-1)
        d_recurrent = d_h_thrice * to_recurrent
        d_h = d_h * u + tf.matmul(d_recurrent, recurrent_kernel, transpose_b=True)
        return d_h_thrice * to_pre, (d_h,), (d_recurrent,)

    def weight_gradients(self, before, saved, d_pre, rights):
        del saved, d_pre
        (h_before,) = before
        (d_recurrent,) = rights
        d_bias = tf.reduce_sum(d_recurrent, axis=0)
        return recurrence.sum_of_products(h_before, d_recurrent), d_bias


@documented_by(GruConfig)
class Gru(RecurrentModel):
    """The client model of FedAtt. The module docstring has the equations.

    Weights in order: `embedding [V, D]`, `kernel [D, 3U]`, `recurrent_kernel [U, 3U]`, `bias [3U]`,
    `recurrent_bias [3U]`, then `output_table [V, U]` unless tied, then `output_bias [V]`.

        model = Gru(vocabulary_size=10_000, seed=1)
        logits, state = model.step(tf.constant([5]), model.initial_state(1))  # [1, 10_000]

    Args:
      vocabulary_size: Rows of the tables, including special ids.
      seed: Seed of the initial weights; None for zeros.
      units: See `GruConfig`.
      embedding_size: See `GruConfig`.
      tied: See `GruConfig`.
      dropout: See `GruConfig`.
    """

    name_in_registry = "gru"

    def __init__(
        self,
        *,
        vocabulary_size: int,
        seed: int | None,
        units: int = GruConfig.units,
        embedding_size: int = GruConfig.embedding_size,
        tied: bool = GruConfig.tied,
        dropout: float = GruConfig.dropout,
    ):
        options = GruConfig(units=units, embedding_size=embedding_size, tied=tied, dropout=dropout)
        super().__init__(
            vocabulary_size=vocabulary_size,
            state_size=[units],
            options=options.arguments(),
        )
        self._dropout_rate = dropout
        self._tied = tied
        inside = units**-0.5

        def weight(name, shape, limit):
            return self.add_weight(name, shape, initializer=uniform(limit, seed=seed, name=name))

        self.embedding = weight("embedding", [vocabulary_size, embedding_size], 0.1)
        self.kernel = weight("kernel", [embedding_size, 3 * units], inside)
        self.recurrent_kernel = weight("recurrent_kernel", [units, 3 * units], inside)
        self.bias = weight("bias", [3 * units], inside)
        self.recurrent_bias = weight("recurrent_bias", [3 * units], inside)
        self._table = (
            self.embedding if tied else weight("output_table", [vocabulary_size, units], 0.1)
        )
        self.output_bias = self.add_weight("output_bias", [vocabulary_size], initializer="zeros")
        self._cell = GruCell(units)

    @property
    def output_table(self):
        return self._table, self.output_bias

    def embed(self, ids):
        return tf.gather(self.embedding, ids)

    def step_hidden(self, inputs, state):
        pre = tf.matmul(inputs, self.kernel) + self.bias
        new_state, _ = self._cell.forward(
            pre, tuple(state), (self.recurrent_kernel, self.recurrent_bias)
        )
        return new_state[0], list(new_state)

    def packed_hidden_and_table(self, ids, packing, training=None):
        words = tf.gather_nd(ids, packing.positions)
        embedding = tf.convert_to_tensor(self.embedding)
        if self._tied:
            inputs, table = lookup_tied(embedding, words)
        else:
            inputs, table = lookup(embedding, words), tf.convert_to_tensor(self._table)
        rate = self._dropout_rate if training else 0.0
        inputs = dropout(inputs, rate, ids, self.bias, salt=0)
        pre = tf.nn.bias_add(tf.matmul(inputs, self.kernel), self.bias)
        weights = [
            tf.convert_to_tensor(self.recurrent_kernel),
            tf.convert_to_tensor(self.recurrent_bias),
        ]
        outputs = recurrence.run(self._cell, pre, weights, packing)
        outputs = dropout(outputs, rate, ids, self.bias, salt=1)
        return outputs, table, tf.convert_to_tensor(self.output_bias)
