"""A small transformer with a tied table: 1.4 million parameters, as many as the CIFG.

With N the layer normalisation, for each layer and position t:

    q_t, k_t, v_t = N(x_t) W,    W [D, 3D]                  split into heads of width d = D / heads
    a_ts = softmax over s of  q_t . k_s / sqrt(d) - m_h (t - s),    t - window < s <= t
    x_t <- x_t + (sum_s a_ts v_s) W_o
    x_t <- x_t + max(0, N(x_t) W_1 + b_1) W_2 + b_2
    logits_t = N(x_t) E^T                                   after the last layer; first x_t = E[w_t]

The slope of head h = 1, ..., H is m_h = 2^(-8 h / H), so there are no vectors of positions, and a
message may be longer than those of training. A step of the stream keeps the keys and the values of
the last `window` words. Training computes all positions at once; both give the same values
(tested).

With V = 10,000 and the default sizes it has 1,406,016 parameters, and the CIFG 1,412,250.

Sources: Vaswani et al. 2017, eqs. 1 and 2, https://arxiv.org/abs/1706.03762; normalisation before
each part: Xiong et al. 2020, https://arxiv.org/abs/2002.04745; slopes: Press et al. 2022, section
3, https://arxiv.org/abs/2108.12409; tied table: Press & Wolf 2017. Initial values: matrices Glorot
uniform, W_o and W_2 divided by sqrt(2 layers) as in GPT-2; table uniform in [-0.1, 0.1]; gains 1;
biases 0.
"""

import tensorflow as tf

from tff_keyboard.models.layers.initialisers import uniform
from tff_keyboard.models.layers.packing import unpack
from tff_keyboard.models.layers.tied_embedding import lookup_tied
from tff_keyboard.models.recurrent_model import RecurrentModel
from tff_keyboard.models.registry.transformer import TransformerConfig
from tff_keyboard.parts.tables import documented_by

_VARIANCE_FLOOR = 1e-5  # added to the variance, as in GPT-2
_MASKED = -1e9  # a score without weight; infinity would give NaN where all are masked


class _Layer:
    """The weights of one layer."""

    def __init__(self, model: "Transformer", number: int, options: TransformerConfig, seed):
        width, inner = options.embedding_size, options.feed_forward_size
        depth = (2 * options.layers) ** -0.5

        def matrix(name, rows, columns, fan_out, scale=1.0):
            name = f"{name}_{number}"
            limit = scale * (6.0 / (rows + fan_out)) ** 0.5
            return model.add_weight(
                name, [rows, columns], initializer=uniform(limit, seed=seed, name=name)
            )

        def vector(name, size, initial):
            return model.add_weight(f"{name}_{number}", [size], initializer=initial)

        self.attention_norm = (
            vector("attention_gain", width, "ones"),
            vector("attention_shift", width, "zeros"),
        )
        self.query_key_value = matrix("query_key_value", width, 3 * width, width)
        self.attention_output = matrix("attention_output", width, width, width, depth)
        self.feed_forward_norm = (
            vector("feed_forward_gain", width, "ones"),
            vector("feed_forward_shift", width, "zeros"),
        )
        self.inner = matrix("inner", width, inner, inner), vector("inner_bias", inner, "zeros")
        self.outer = (
            matrix("outer", inner, width, width, depth),
            vector("outer_bias", width, "zeros"),
        )

    def heads_of(self, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns the queries, keys and values, each [n, D], of rows x [n, D]."""
        normed = normalise(x, *self.attention_norm)
        return tuple(tf.split(tf.matmul(normed, self.query_key_value), 3, axis=-1))

    def output(self, x: tf.Tensor, attended: tf.Tensor) -> tf.Tensor:
        """Returns the rows [n, D] after this layer, from the sums of values `attended` [n, D]."""
        x += tf.matmul(attended, self.attention_output)
        normed = normalise(x, *self.feed_forward_norm)
        inner = tf.nn.relu(tf.nn.bias_add(tf.matmul(normed, self.inner[0]), self.inner[1]))
        return x + tf.nn.bias_add(tf.matmul(inner, self.outer[0]), self.outer[1])


def normalise(x: tf.Tensor, gain: tf.Tensor, shift: tf.Tensor) -> tf.Tensor:
    """Returns rows x [n, D] with mean 0 and variance 1, times `gain` plus `shift` (Ba et al. 2016).

    A row of equal entries becomes `shift`.
    """
    centred = x - tf.reduce_mean(x, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)
    return centred * tf.math.rsqrt(variance + _VARIANCE_FLOOR) * gain + shift


@documented_by(TransformerConfig)
class Transformer(RecurrentModel):
    """A small transformer. The module docstring has the equations.

    Weights in order: `embedding [V, D]`, then for each layer `attention_gain [D]`,
    `attention_shift [D]`, `query_key_value [D, 3D]`, `attention_output [D, D]`,
    `feed_forward_gain [D]`, `feed_forward_shift [D]`, `inner [D, F]`, `inner_bias [F]`,
    `outer [F, D]`, `outer_bias [D]`, then `final_gain [D]` and `final_shift [D]`.

    State: `[window]` with 1 for each position that holds a word, then the keys and the values of
    each layer, `[window D]`, with the last word at the end.

        model = Transformer(vocabulary_size=10_000, seed=1)
        logits, state = model.step(tf.constant([5]), model.initial_state(1))  # [1, 10_000]

    Args:
      vocabulary_size: Rows of the table, including special ids.
      seed: Seed of the initial weights; None for zeros.
      embedding_size: See `TransformerConfig`.
      layers: See `TransformerConfig`.
      heads: See `TransformerConfig`.
      feed_forward_size: See `TransformerConfig`.
      window: See `TransformerConfig`.
    """

    name_in_registry = "transformer"

    def __init__(
        self,
        *,
        vocabulary_size: int,
        seed: int | None,
        embedding_size: int = TransformerConfig.embedding_size,
        layers: int = TransformerConfig.layers,
        heads: int = TransformerConfig.heads,
        feed_forward_size: int = TransformerConfig.feed_forward_size,
        window: int = TransformerConfig.window,
    ):
        options = TransformerConfig(
            embedding_size=embedding_size,
            layers=layers,
            heads=heads,
            feed_forward_size=feed_forward_size,
            window=window,
        )
        super().__init__(
            vocabulary_size=vocabulary_size,
            state_size=[window] + [window * embedding_size] * (2 * layers),
            options=options.arguments(),
        )
        self._heads, self._window = heads, window
        self._slopes = [2.0 ** (-8.0 * head / heads) for head in range(1, heads + 1)]
        self.embedding = self.add_weight(
            "embedding",
            [vocabulary_size, embedding_size],
            initializer=uniform(0.1, seed=seed, name="embedding"),
        )
        self._blocks = [_Layer(self, number, options, seed) for number in range(1, layers + 1)]
        self.final_gain = self.add_weight("final_gain", [embedding_size], initializer="ones")
        self.final_shift = self.add_weight("final_shift", [embedding_size], initializer="zeros")

    @property
    def output_table(self):
        return self.embedding, None

    def embed(self, ids):
        return tf.gather(self.embedding, ids)

    def step_hidden(self, inputs, state):
        """See base class. A state has a flag per position of the window, 0 before the first word.

        Then follow, for each layer, the keys and the values of these positions, [batch, window *
        width].
        """
        x, (has_word, *keys_and_values) = inputs, state
        has_word = tf.concat([has_word[:, 1:], tf.ones_like(has_word[:, :1])], axis=1)
        distances = tf.range(self._window - 1, -1, -1, dtype=tf.float32)  # of the last word: 0
        penalty = tf.tensordot(distances, self._slopes, axes=0)  # [window, heads]
        masked = _MASKED * (1.0 - has_word)[:, :, tf.newaxis]
        width = inputs.shape[-1]
        size = width // self._heads
        new_state = [has_word]
        for block, keys, values in zip(
            self._blocks, keys_and_values[::2], keys_and_values[1::2], strict=True
        ):
            query, key, value = block.heads_of(x)
            keys = tf.concat([keys[:, width:], key], axis=1)
            values = tf.concat([values[:, width:], value], axis=1)
            new_state += [keys, values]
            by_head = [-1, self._window, self._heads, size]
            query = tf.reshape(query, [-1, 1, self._heads, size])
            scores = tf.reduce_sum(query * tf.reshape(keys, by_head), axis=-1) * size**-0.5
            shares = tf.nn.softmax(scores - penalty + masked, axis=1)  # [batch, window, heads]
            attended = tf.reduce_sum(shares[..., tf.newaxis] * tf.reshape(values, by_head), axis=1)
            x = block.output(x, tf.reshape(attended, [-1, width]))
        return normalise(x, self.final_gain, self.final_shift), new_state

    def packed_hidden_and_table(self, ids, packing, training=None):
        del training  # there is no dropout
        batch, time = tf.unstack(tf.shape(ids))
        embedding = tf.convert_to_tensor(self.embedding)
        x, table = lookup_tied(embedding, tf.gather_nd(ids, packing.positions))
        times = tf.range(time)
        distances = times[:, tf.newaxis] - times  # [time, time]: t - s
        is_seen = tf.logical_and(distances >= 0, distances < self._window)
        penalty = tf.tensordot(self._slopes, tf.cast(distances, tf.float32), axes=0)
        bias = tf.where(is_seen, -penalty, _MASKED)  # [heads, time, time]
        width = self.embedding.shape[1]
        size = width // self._heads

        def by_head(rows):
            """Returns packed rows [n, D] as [batch, heads, time, size], with zeros at padding."""
            padded = unpack(rows, packing, batch, time)
            return tf.transpose(tf.reshape(padded, [batch, time, self._heads, size]), [0, 2, 1, 3])

        for block in self._blocks:
            query, key, value = map(by_head, block.heads_of(x))
            scores = tf.matmul(query, key, transpose_b=True) * size**-0.5 + bias
            attended = tf.transpose(tf.matmul(tf.nn.softmax(scores), value), [0, 2, 1, 3])
            attended = tf.reshape(attended, [batch, time, width])
            x = block.output(x, tf.gather_nd(attended, packing.positions))
        return normalise(x, self.final_gain, self.final_shift), table, None
