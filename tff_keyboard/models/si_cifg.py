"""The scale-invariant CIFG: a CIFG whose activations do not depend on the scale of their inputs.

    s(z) = relu(z) / max_j relu(z_j)         in [0, 1], in place of the sigmoid
    t(z) = z / max_j |z_j|                   in [-1, 1], in place of tanh

    x_t = E[w_t]                                             [dim 96], E is [V, 96]
    f_t = s(x_t W_f + r_{t-1} R_f + b_f)                     [670]
    i_t = 1 - f_t                                            coupled: no input weights
    g_t = t(x_t W_g + r_{t-1} R_g + b_g)
    o_t = s(x_t W_o + r_{t-1} R_o + b_o)
    c_t = f_t * c_{t-1} + i_t * g_t
    r_t = (o_t * t(c_t)) P                                   recurrent projection, P is [670, 96]
    logits_t = r_t E^T                                       tied with the input, no output bias

The maxima are over the units of one gate, at one position. If W, R and b of a gate are multiplied
by a positive number, the outputs stay the same, so plain SGD on a client needs no learning rate for
each gate. It has as many parameters as the CIFG.

Source: Ro et al. 2024, https://arxiv.org/abs/2403.08100, section 3: sigmoid and tanh of the CIFG
(Hard et al. 2018) are replaced by scale-invariant functions, ReLU with a maximum as norm. The
paper could not be read when this was written: t(z) and the use of s for both gates follow its
abstract and a summary, https://www.emergentmind.com/topics/coupled-input-forget-gate-cifg. Compare
both with the paper before you report figures under its name.

Initial values as in `cifg.py`; b_f = 1, so that the forget gate starts near 1.
"""

import tensorflow as tf

from tff_keyboard.models.cifg import ProjectedRecurrentModel
from tff_keyboard.models.registry.si_cifg import SiCifgConfig
from tff_keyboard.parts.tables import documented_by

_LEAST = 1e-6  # a smaller maximum counts as this number, so that no gradient is infinite


def scaled_relu(z: tf.Tensor) -> tf.Tensor:
    """Returns s(z) of inputs [..., units]."""
    positive = tf.nn.relu(z)
    return positive / tf.maximum(tf.reduce_max(positive, axis=-1, keepdims=True), _LEAST)


def scaled(z: tf.Tensor) -> tf.Tensor:
    """Returns t(z) of inputs [..., units]."""
    return z / tf.maximum(tf.reduce_max(tf.abs(z), axis=-1, keepdims=True), _LEAST)


@documented_by(SiCifgConfig)
class SiCifg(ProjectedRecurrentModel):
    """The scale-invariant CIFG. The module docstring has the equations.

    The gates of the weights are in the order f, g, o.

        model = SiCifg(vocabulary_size=10_000, seed=1)
        logits, state = model.step(tf.constant([5]), model.initial_state(1))  # [1, 10_000]

    Args:
      vocabulary_size: Rows of the table, including special ids.
      seed: Seed of the initial weights; None for zeros.
      units: See `SiCifgConfig`.
      embedding_size: See `SiCifgConfig`.
    """

    name_in_registry = "si_cifg"

    def __init__(
        self,
        *,
        vocabulary_size: int,
        seed: int | None,
        units: int = SiCifgConfig.units,
        embedding_size: int = SiCifgConfig.embedding_size,
    ):
        super().__init__(
            vocabulary_size=vocabulary_size,
            seed=seed,
            options=SiCifgConfig(units=units, embedding_size=embedding_size),
            biases=[1.0, 0.0, 0.0],
        )

    def step_hidden(self, inputs, state):
        r, c = state
        pre = tf.matmul(inputs, self.kernel) + tf.matmul(r, self.recurrent_kernel) + self.bias
        z_f, z_g, z_o = tf.split(pre, 3, axis=-1)
        c = c + (1.0 - scaled_relu(z_f)) * (scaled(z_g) - c)  # f * c + (1 - f) * g
        r = tf.matmul(scaled_relu(z_o) * scaled(c), self.projection)
        return r, [r, c]
