"""The papers' cells written once more in NumPy float64, a step at a time, and small batches."""

import numpy as np
import tensorflow as tf

PAD, BOS, EOS, OOV = 0, 1, 2, 3


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def cifg_step(weights, x, state):
    """Hard et al. 2018: (hidden, new state)."""
    _, kernel, recurrent_kernel, bias, projection = weights
    r, c = state
    z_i, z_g, z_o = np.split(x @ kernel + r @ recurrent_kernel + bias, 3, axis=-1)
    forget = 1.0 - sigmoid(z_i)
    c = forget * c + sigmoid(z_i) * np.tanh(z_g)
    r = (sigmoid(z_o) * np.tanh(c)) @ projection
    return r, (r, c)


def gru_step(weights, x, state):
    """torch.nn.GRU: (hidden, new state)."""
    _, kernel, recurrent_kernel, bias, recurrent_bias = weights[:5]
    (h,) = state
    x_u, x_q, x_n = np.split(x @ kernel + bias, 3, axis=-1)
    h_u, h_q, h_n = np.split(h @ recurrent_kernel + recurrent_bias, 3, axis=-1)
    u, q = sigmoid(x_u + h_u), sigmoid(x_q + h_q)
    h = u * h + (1.0 - u) * np.tanh(x_n + q * h_n)
    return h, (h,)


def lstm_step(kernel, recurrent_kernel, bias, x, state):
    h, c = state
    i, f, g, o = np.split(x @ kernel + h @ recurrent_kernel + bias, 4, axis=-1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    h = sigmoid(o) * np.tanh(c)
    return h, (h, c)


def lstm2_step(weights, x, state):
    h, first = lstm_step(*weights[1:4], x, state[:2])
    h, second = lstm_step(*weights[4:7], h, state[2:])
    return h, (*first, *second)


def si_cifg_step(weights, x, state):
    """Ro et al. 2024: a CIFG with scale-invariant activations."""
    _, kernel, recurrent_kernel, bias, projection = weights
    r, c = state
    z_f, z_g, z_o = np.split(x @ kernel + r @ recurrent_kernel + bias, 3, axis=-1)

    def gate(z):
        positive = np.maximum(z, 0.0)
        return positive / positive.max(axis=-1, keepdims=True)

    def over_largest(z):
        return z / np.abs(z).max(axis=-1, keepdims=True)

    c = gate(z_f) * c + (1.0 - gate(z_f)) * over_largest(z_g)
    r = (gate(z_o) * over_largest(c)) @ projection
    return r, (r, c)


WINDOW, HEADS = 4, 2  # of the transformer in the tests


def transformer_step(weights, x, state):
    """Vaswani et al. 2017, normalised first, with the slopes of Press et al. 2022.

    State: which of the last `WINDOW` words exist, then keys and values of each layer. Each row and
    head is computed by itself, with a list of the words that exist.
    """

    def norm(rows, gain, shift):
        rows = rows - rows.mean(-1, keepdims=True)
        return rows / np.sqrt(np.square(rows).mean(-1, keepdims=True) + 1e-5) * gain + shift

    held, kept = state[0], state[1:]
    held = np.append(held[:, 1:], np.ones([len(held), 1]), axis=1)
    width = x.shape[1]
    size = width // HEADS
    new_state = [held]
    layers = [weights[1:-2][start : start + 10] for start in range(0, len(weights) - 3, 10)]
    for number, (gain, shift, qkv, out, gain_2, shift_2, w_1, b_1, w_2, b_2) in enumerate(layers):
        q, k, v = np.split(norm(x, gain, shift) @ qkv, 3, axis=-1)
        keys = np.append(kept[2 * number][:, width:], k, axis=1)
        values = np.append(kept[2 * number + 1][:, width:], v, axis=1)
        new_state += [keys, values]
        attended = np.zeros_like(x)
        for row in range(len(x)):
            words = np.flatnonzero(held[row])
            for head in range(HEADS):
                part = slice(head * size, (head + 1) * size)
                k_row = keys[row].reshape(WINDOW, width)[words, part]
                v_row = values[row].reshape(WINDOW, width)[words, part]
                slope = 2.0 ** (-8.0 * (head + 1) / HEADS)
                scores = k_row @ q[row, part] / np.sqrt(size) - slope * (words[-1] - words)
                shares = np.exp(scores) / np.exp(scores).sum()
                attended[row, part] = shares @ v_row
        x = x + attended @ out
        x = x + np.maximum(norm(x, gain_2, shift_2) @ w_1 + b_1, 0.0) @ w_2 + b_2
    return norm(x, *weights[-2:]), tuple(new_state)


def random_batch(rng, *, batch, longest, vocabulary):
    """[batch, longest + 1] int32 as the data pipeline makes it: BOS, ids, EOS, PAD on the right."""
    rows = np.zeros([batch, longest + 1], np.int32)
    for row in rows:
        words = rng.integers(0, longest)
        row[: words + 2] = [BOS, *rng.integers(OOV, vocabulary, words), EOS]
    return rows


def float64_weights(model):
    return [v.numpy().astype(np.float64) for v in model.trainable_variables]


def randomise(model, rng, scale=0.3):
    """Weights without the symmetries of the initial ones (zero biases hide mistakes)."""
    for variable in model.trainable_variables:
        variable.assign(rng.normal(scale=scale, size=variable.shape).astype(np.float32))


def mean_loss_and_gradient(model, loss_fn):
    with tf.GradientTape() as tape:
        loss = loss_fn()
    return loss.numpy(), [
        tf.convert_to_tensor(g).numpy() for g in tape.gradient(loss, model.trainable_variables)
    ]
