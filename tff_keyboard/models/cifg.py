"""The coupled input-forget-gate LSTM of Gboard's next-word model.

    x_t = E[w_t]                                             [dim 96], E is [V, 96]
    i_t = sigmoid(x_t W_i + r_{t-1} R_i + b_i)               [670]
    f_t = 1 - i_t                                            coupled: no forget weights
    g_t = tanh(x_t W_g + r_{t-1} R_g + b_g)
    o_t = sigmoid(x_t W_o + r_{t-1} R_o + b_o)               no peepholes
    c_t = f_t * c_{t-1} + i_t * g_t
    r_t = (o_t * tanh(c_t)) P                                recurrent projection, P is [670, 96]
    logits_t = r_t E^T                                       tied with the input, no output bias

Parameters at V = 10,000: 10,000 * 96 + 3 * 670 * (96 + 96 + 1) + 670 * 96 = 1,412,250, the 1.4 M
of the paper. Source: Hard et al. 2018, section 3, https://arxiv.org/abs/1811.03604; coupled gates:
Greff et al. 2017; recurrent projection: Sak et al. 2014.

Initial values (the paper gives none): Glorot uniform per gate for the matrices; b_i = -1, that is
a forget gate of sigmoid(1) = 0.73, so that gradients reach back from the first round on; E uniform
with standard deviation 1/sqrt(dim), which makes x_t a unit vector on average.
"""

import math
from collections.abc import Sequence

import tensorflow as tf

from tff_keyboard.data.vocabulary import PAD
from tff_keyboard.models import softmax_loss
from tff_keyboard.models.first_step import FirstStep, are_bounded
from tff_keyboard.models.layers import recurrence
from tff_keyboard.models.layers.dropout import dropout
from tff_keyboard.models.layers.initialisers import glorot, per_gate_constants, uniform
from tff_keyboard.models.layers.packing import by_rows, pack
from tff_keyboard.models.layers.tied_embedding import lookup_tied
from tff_keyboard.models.recurrent_model import RecurrentModel
from tff_keyboard.models.registry._projected_model import ProjectedModel
from tff_keyboard.models.registry.cifg import CifgConfig
from tff_keyboard.parts.tables import documented_by


class CifgCell:
    """The step above and its derivative, for `recurrence.run`.

    State `(r [.., dim], c [.., units])`; weights `(R [dim, 3 units], P [units, dim])`; `pre` is `x
    W + b`, with the gates in the order i, g, o.
    """

    def __init__(self, units: int, dim: int):
        self.state_sizes = (dim, units)
        self.saved_sizes = (units, units, units, units, units)  # i, g, o, tanh(c), o * tanh(c)
        self.right_sizes = (dim,)  # d_r

    def forward(self, pre, state, weights):
        r, c = state
        recurrent_kernel, projection = weights
        z_i, z_g, z_o = tf.split(pre + tf.matmul(r, recurrent_kernel), 3, axis=-1)
        i, g, o = tf.sigmoid(z_i), tf.tanh(z_g), tf.sigmoid(z_o)
        c = c + i * (g - c)  # (1 - i) * c + i * g
        tanh_c = tf.tanh(c)
        m = o * tanh_c
        return (tf.matmul(m, projection), c), (i, g, o, tanh_c, m)

    def factors(self, before, saved):
        """Returns gates i, g, o, tanh(c), and the derivative of c by gate i."""
        _, c_before = before
        i, g, o, tanh_c, _ = saved
        return i, g, o, tanh_c, g - c_before

    def backward(self, factors, d_state, weights):
        """See base class. `rights` is the gradient of r, for the gradient of the projection."""
        d_r, d_c = d_state
        i, g, o, tanh_c, c_to_i = factors
        recurrent_kernel, projection = weights
        d_m = tf.matmul(d_r, projection, transpose_b=True)
        d_c = d_c + tf.raw_ops.TanhGrad(y=tanh_c, dy=d_m * o)
        d_g = d_c * i
        d_pre = tf.concat(
            [
                tf.raw_ops.SigmoidGrad(y=i, dy=d_c * c_to_i),
                tf.raw_ops.TanhGrad(y=g, dy=d_g),
                tf.raw_ops.SigmoidGrad(y=o, dy=d_m * tanh_c),
            ],
            axis=-1,
        )
        d_r_before = tf.matmul(d_pre, recurrent_kernel, transpose_b=True)
        return d_pre, (d_r_before, d_c - d_g), (d_r,)  # d_c * (1 - i)

    def weight_gradients(self, before, saved, d_pre, rights):
        r_before, _ = before
        *_, m = saved
        (d_r,) = rights
        return (recurrence.sum_of_products(r_before, d_pre), recurrence.sum_of_products(m, d_r))


class ProjectedRecurrentModel(RecurrentModel):
    """The weights of a recurrent model with three gates, a projection and a tied table.

    Weights in order: `embedding [V, D]`, `kernel [D, 3U]`, `recurrent_kernel [D, 3U]`, `bias [3U]`,
    `projection [U, D]`. The state is `[r [batch, D], c [batch, U]]`; the hidden vector is r.

    Args:
      vocabulary_size: Rows of the table, including special ids.
      seed: Seed of the initial weights; None for zeros, except for the biases.
      options: The sizes: `units` is the width of c, `embedding_size` the width of x and r.
      biases: Initial bias of each gate.
    """

    def __init__(
        self,
        *,
        vocabulary_size: int,
        seed: int | None,
        options: ProjectedModel,
        biases: Sequence[float],
    ):
        units, dim = options.units, options.embedding_size
        super().__init__(
            vocabulary_size=vocabulary_size, state_size=[dim, units], options=options.arguments()
        )

        def matrix(name, rows, columns, gates):
            initialiser = glorot(rows, columns, seed=seed, name=name)
            return self.add_weight(name, [rows, gates * columns], initializer=initialiser)

        self.embedding = self.add_weight(
            "embedding",
            [vocabulary_size, dim],
            initializer=uniform(math.sqrt(3.0 / dim), seed=seed, name="embedding"),
        )
        self.kernel = matrix("kernel", dim, units, 3)
        self.recurrent_kernel = matrix("recurrent_kernel", dim, units, 3)
        self.bias = self.add_weight(
            "bias", [3 * units], initializer=per_gate_constants(units, biases)
        )
        self.projection = matrix("projection", units, dim, 1)

    @property
    def output_table(self):
        return tf.convert_to_tensor(self.embedding), None

    def embed(self, ids):
        return tf.gather(self.embedding, ids)


@documented_by(CifgConfig)
class Cifg(ProjectedRecurrentModel):
    """The next-word model of Gboard. The module docstring has the equations.

        model = Cifg(vocabulary_size=10_000, seed=1)
        logits, state = model.step(tf.constant([5]), model.initial_state(1))  # [1, 10_000]

    Args:
      vocabulary_size: Rows of the table, including special ids.
      seed: Seed of the initial weights; None for zeros.
      units: See `CifgConfig`.
      embedding_size: See `CifgConfig`.
      embedding_dropout: See `CifgConfig`.
      output_dropout: See `CifgConfig`.
    """

    name_in_registry = "cifg"

    def __init__(
        self,
        *,
        vocabulary_size: int,
        seed: int | None,
        units: int = CifgConfig.units,
        embedding_size: int = CifgConfig.embedding_size,
        embedding_dropout: float = CifgConfig.embedding_dropout,
        output_dropout: float = CifgConfig.output_dropout,
    ):
        options = CifgConfig(
            units=units,
            embedding_size=embedding_size,
            embedding_dropout=embedding_dropout,
            output_dropout=output_dropout,
        )
        super().__init__(
            vocabulary_size=vocabulary_size, seed=seed, options=options, biases=[-1.0, 0.0, 0.0]
        )
        self._embedding_dropout = embedding_dropout
        self._output_dropout = output_dropout
        self._cell = CifgCell(units, embedding_size)

    def step_hidden(self, inputs, state):
        pre = tf.matmul(inputs, self.kernel) + self.bias
        new_state, _ = self._cell.forward(pre, state, (self.recurrent_kernel, self.projection))
        return new_state[0], list(new_state)

    def packed_hidden_and_table(self, ids, packing, training=None):
        words = tf.gather_nd(ids, packing.positions)
        inputs, table = lookup_tied(tf.convert_to_tensor(self.embedding), words)
        if training:
            inputs = dropout(inputs, self._embedding_dropout, ids, self.bias, salt=0)
        pre = tf.nn.bias_add(tf.matmul(inputs, self.kernel), self.bias)  # [n, 3 units]
        weights = [
            tf.convert_to_tensor(self.recurrent_kernel),
            tf.convert_to_tensor(self.projection),
        ]
        hidden = recurrence.run(self._cell, pre, weights, packing)
        if training:
            hidden = dropout(hidden, self._output_dropout, ids, self.bias, salt=1)
        return hidden, table, None

    @property
    def shares_first_step(self):
        # The mask of a dropout depends on the whole batch of a client.
        return not self._embedding_dropout and not self._output_dropout

    def first_step_factors(self, weights, batch):
        """See `first_step.SharesFirstStep`."""
        table, kernel, recurrent_kernel, bias, projection = weights
        ids, padded_targets = batch[:, :-1], batch[:, 1:]
        is_target = tf.not_equal(padded_targets, PAD)
        time = tf.shape(ids)[1]
        packing = pack(tf.math.count_nonzero(is_target, axis=1, dtype=tf.int32), time)
        order, packed_order = by_rows(packing, time)
        targets = tf.boolean_mask(padded_targets, is_target)  # by row
        packed_inputs = tf.gather(table, tf.gather_nd(ids, packing.positions))
        pre = tf.nn.bias_add(tf.matmul(packed_inputs, kernel), bias)
        factors_of_loss = []

        def d_hidden_of(packed_hidden):
            hidden = tf.gather(packed_hidden, order)
            loss = softmax_loss.loss_factors(hidden, table, targets)
            factors_of_loss.extend([hidden, loss.probabilities, loss.losses, loss.is_best])
            return tf.gather(loss.d_hidden, packed_order)

        factors = recurrence.factors(
            self._cell, pre, (recurrent_kernel, projection), packing, d_hidden_of
        )
        d_inputs = tf.matmul(factors.d_pre, kernel, transpose_b=True)
        packed = [
            packed_inputs,
            d_inputs,
            factors.before[0],
            factors.saved[-1],
            factors.d_pre,
            factors.rights[0],
        ]
        return [
            targets,
            tf.boolean_mask(ids, is_target),
            *factors_of_loss,
            *(tf.gather(values, order) for values in packed),
        ]

    def first_step(self, factors):
        """See `first_step.SharesFirstStep`."""
        targets, words, hidden, p, losses, is_best, inputs, d_inputs, r_before, m, d_pre, d_r = (
            factors
        )
        share = tf.math.divide_no_nan(1.0, tf.cast(tf.size(targets), tf.float32))
        d_pre, d_r, weighted = d_pre * share, d_r * share, hidden * share
        d_table = tf.matmul(p, weighted, transpose_a=True)
        d_table = tf.raw_ops.InplaceSub(x=d_table, i=targets, v=weighted)
        d_table = tf.raw_ops.InplaceAdd(x=d_table, i=words, v=d_inputs * share)
        gradients = [
            d_table,
            recurrence.sum_of_products(inputs, d_pre),
            recurrence.sum_of_products(r_before, d_pre),
            tf.reduce_sum(d_pre, axis=0),
            recurrence.sum_of_products(m, d_r),
        ]
        # Finite losses are of finite logits, whose probabilities are at most 1.
        bounded = are_bounded([losses, hidden, inputs, d_inputs, r_before, m, d_pre, d_r])
        return FirstStep(gradients, losses, is_best, bounded)
