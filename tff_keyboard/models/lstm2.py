"""The client model of FedMed: two LSTM layers on word embeddings.

    x_t = E[w_t]                                               300 wide
    for each of 2 layers, with input x and state (h, c):       400 units
      i = sigmoid(x W_i + h R_i + b_i),   f = sigmoid(x W_f + h R_f + b_f)
      g = tanh(x W_g + h R_g + b_g),   o = sigmoid(x W_o + h R_o + b_o)
      c' = f * c + i * g,   h' = o * tanh(c')
    logits_t = h''_t T^T + a                                   T [V, 400]; a projection if tied

The paper gives the layers, 300-d embeddings and 400 units. Tied: h'' is projected to 300 by a
matrix first (the paper's output layer is fully connected; untied is the default).

Source: Wu et al. 2020, section 4.2, https://doi.org/10.3390/s20144048; cell: Hochreiter &
Schmidhuber 1997 with forget gates. Initial values: Glorot uniform per gate; b_f = 1; tables uniform
in [-0.1, 0.1]; output bias 0.
"""

import tensorflow as tf

from tff_keyboard.models.layers import recurrence
from tff_keyboard.models.layers.dropout import dropout
from tff_keyboard.models.layers.initialisers import glorot, per_gate_constants, uniform
from tff_keyboard.models.layers.tied_embedding import lookup, lookup_tied
from tff_keyboard.models.recurrent_model import RecurrentModel
from tff_keyboard.models.registry.lstm2 import Lstm2Config
from tff_keyboard.parts.tables import documented_by

LAYERS = 2


class LstmCell:
    """The step of one layer above and its derivative, for `recurrence.run`.

    State `(h [.., units], c [.., units])`; weights `(R [units, 4 units],)`; `pre` is `x W + b`,
    with the gates in the order i, f, g, o.
    """

    def __init__(self, units: int):
        self.state_sizes = (units, units)
        self.saved_sizes = (units, units, units, units, units)  # i, f, g, o, tanh(c)
        self.right_sizes = ()

    def forward(self, pre, state, weights):
        h, c = state
        (recurrent_kernel,) = weights
        z_i, z_f, z_g, z_o = tf.split(pre + tf.matmul(h, recurrent_kernel), 4, axis=-1)
        i, f, g, o = tf.sigmoid(z_i), tf.sigmoid(z_f), tf.tanh(z_g), tf.sigmoid(z_o)
        c = f * c + i * g
        tanh_c = tf.tanh(c)
        return (o * tanh_c, c), (i, f, g, o, tanh_c)

    def factors(self, before, saved):
        """Returns d h / d c, d c / d c_before, and d c or d h / d pre (the last for gate o)."""
        _, c_before = before
        i, f, g, o, tanh_c = saved
        h_to_c = tf.raw_ops.TanhGrad(y=tanh_c, dy=o)
        to_pre = tf.concat(  # d c / d z_i, d c / d z_f, d c / d z_g, d h / d z_o
            [
                tf.raw_ops.SigmoidGrad(y=i, dy=g),
                tf.raw_ops.SigmoidGrad(y=f, dy=c_before),
                tf.raw_ops.TanhGrad(y=g, dy=i),
                tf.raw_ops.SigmoidGrad(y=o, dy=tanh_c),
            ],
            axis=-1,
        )
        return h_to_c, f, to_pre

    def backward(self, factors, d_state, weights):
        d_h, d_c = d_state
        h_to_c, forget, to_pre = factors
        (recurrent_kernel,) = weights
        d_c = d_c + d_h * h_to_c
        d_pre = tf.concat([d_c, d_c, d_c, d_h], axis=-1) * to_pre
        d_h_before = tf.matmul(d_pre, recurrent_kernel, transpose_b=True)
        return d_pre, (d_h_before, d_c * forget), ()

    def weight_gradients(self, before, saved, d_pre, rights):
        del saved, rights
        return (recurrence.sum_of_products(before[0], d_pre),)


@documented_by(Lstm2Config)
class Lstm2(RecurrentModel):
    """The client model of FedMed. The module docstring has the equations.

    Weights in order: `embedding [V, D]`; `kernel_1 [D, 4U]`, `recurrent_kernel_1 [U, 4U]`, `bias_1
    [4U]`; `kernel_2 [U, 4U]`, `recurrent_kernel_2`, `bias_2`; `projection [U, D]` if tied, else
    `output_table [V, U]`; `output_bias [V]`. The state is `[h_1, c_1, h_2, c_2]`.

        model = Lstm2(vocabulary_size=10_000, seed=1)
        logits, state = model.step(tf.constant([5]), model.initial_state(1))  # [1, 10_000]

    Args:
      vocabulary_size: Rows of the tables, including special ids.
      seed: Seed of the initial weights; None for zeros.
      units: See `Lstm2Config`.
      embedding_size: See `Lstm2Config`.
      tied: See `Lstm2Config`.
      dropout: See `Lstm2Config`.
    """

    name_in_registry = "lstm2"

    def __init__(
        self,
        *,
        vocabulary_size: int,
        seed: int | None,
        units: int = Lstm2Config.units,
        embedding_size: int = Lstm2Config.embedding_size,
        tied: bool = Lstm2Config.tied,
        dropout: float = Lstm2Config.dropout,
    ):
        options = Lstm2Config(
            units=units, embedding_size=embedding_size, tied=tied, dropout=dropout
        )
        super().__init__(
            vocabulary_size=vocabulary_size,
            state_size=[units] * (2 * LAYERS),
            options=options.arguments(),
        )
        self._dropout_rate = dropout
        self._tied = tied

        def table(name, width):
            initialiser = uniform(0.1, seed=seed, name=name)
            return self.add_weight(name, [vocabulary_size, width], initializer=initialiser)

        def matrix(name, rows, columns, gates):
            initialiser = glorot(rows, columns, seed=seed, name=name)
            return self.add_weight(name, [rows, gates * columns], initializer=initialiser)

        self.embedding = table("embedding", embedding_size)

        def layer(number, width):
            kernel = matrix(f"kernel_{number}", width, units, 4)
            recurrent_kernel = matrix(f"recurrent_kernel_{number}", units, units, 4)
            initialiser = per_gate_constants(units, [0.0, 1.0, 0.0, 0.0])
            bias = self.add_weight(f"bias_{number}", [4 * units], initializer=initialiser)
            return kernel, recurrent_kernel, bias

        # One attribute per weight, because Keras moves the weights of a list to the front.
        self.kernel_1, self.recurrent_kernel_1, self.bias_1 = layer(1, embedding_size)
        self.kernel_2, self.recurrent_kernel_2, self.bias_2 = layer(2, units)
        self.projection = matrix("projection", units, embedding_size, 1) if tied else None
        self._table = self.embedding if tied else table("output_table", units)
        self.output_bias = self.add_weight("output_bias", [vocabulary_size], initializer="zeros")
        self._cell = LstmCell(units)

    def _weights_by_layer(self):
        return (
            (self.kernel_1, self.recurrent_kernel_1, self.bias_1),
            (self.kernel_2, self.recurrent_kernel_2, self.bias_2),
        )

    @property
    def output_table(self):
        return self._table, self.output_bias

    def embed(self, ids):
        return tf.gather(self.embedding, ids)

    def step_hidden(self, inputs, state):
        new_state = []
        for layer, (kernel, recurrent_kernel, bias) in enumerate(self._weights_by_layer()):
            pre = tf.matmul(inputs, kernel) + bias
            before = tuple(state[2 * layer : 2 * layer + 2])
            after, _ = self._cell.forward(pre, before, (recurrent_kernel,))
            new_state.extend(after)
            inputs = after[0]
        return self._project(inputs), new_state

    def packed_hidden_and_table(self, ids, packing, training=None):
        words = tf.gather_nd(ids, packing.positions)
        embedding = tf.convert_to_tensor(self.embedding)
        if self._tied:
            outputs, table = lookup_tied(embedding, words)
        else:
            outputs, table = lookup(embedding, words), tf.convert_to_tensor(self._table)
        rate = self._dropout_rate if training else 0.0
        outputs = dropout(outputs, rate, ids, self.bias_1, salt=0)
        for layer, (kernel, recurrent_kernel, bias) in enumerate(self._weights_by_layer()):
            pre = tf.nn.bias_add(tf.matmul(outputs, kernel), bias)
            weights = [tf.convert_to_tensor(recurrent_kernel)]
            outputs = recurrence.run(self._cell, pre, weights, packing)
            outputs = dropout(outputs, rate, ids, bias, salt=layer + 1)
        return self._project(outputs), table, tf.convert_to_tensor(self.output_bias)

    def _project(self, hidden):
        return hidden if self.projection is None else tf.matmul(hidden, self.projection)
