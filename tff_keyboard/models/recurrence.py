"""Runs a recurrent cell over time with a hand-written backward pass.

Automatic differentiation of a loop over time computes a weight-gradient product *per step*: for a
batch of 16 these are thin, memory-bound matrix products. Here the loops hold only what depends on
the step before:

    forward    state[t], saved[t]          = cell.forward(pre[t], state[t-1])
    backward   d_pre[t], d_state[t-1], ... = cell.backward(factors[t], d_state[t])

The products with the inputs (`pre = inputs @ kernel + bias`, one GEMM for all steps) stay outside,
and so do the factors of the backward pass that are known from the forward pass (one elementwise
sweep over all steps) and the weight gradients (`sum over t of left[t]^T right[t]`, one GEMM for all
steps). A cell supplies its equations and their derivatives; nothing else about it is known here.
"""

from collections.abc import Sequence
from typing import Protocol

import tensorflow as tf

Tensors = tuple[tf.Tensor, ...]


class Cell(Protocol):
    """The equations of one recurrent cell and their derivatives.

    `weights` are what a step multiplies with; their order is the cell's own. `forward` and
    `backward` work on one step, tensors [batch, n]; `factors` and `weight_gradients` on all steps
    at once, tensors [time, batch, n].

    Attributes:
      saved_sizes: Widths of the tensors that `forward` saves.
      right_sizes: Widths of the tensors that `backward` keeps beside `d_pre`.
    """

    saved_sizes: Sequence[int]
    right_sizes: Sequence[int]

    def forward(self, pre: tf.Tensor, state: Tensors, weights: Tensors) -> tuple[Tensors, Tensors]:
        """`(new state, saved)`; `state[0]` is the cell's output."""

    def factors(self, before: Tensors, after: Tensors, saved: Tensors) -> Tensors:
        """What `backward` needs of the forward pass; `before`, `after` are states around a step."""

    def backward(
        self, factors: Tensors, d_state: Tensors, weights: Tensors
    ) -> tuple[tf.Tensor, Tensors, Tensors]:
        """`(d_pre, d_state before the step, rights)`."""

    def weight_gradients(
        self, before: Tensors, after: Tensors, saved: Tensors, d_pre: tf.Tensor, rights: Tensors
    ) -> Tensors:
        """Gradients of `weights`."""


def run(
    cell: Cell, pre: tf.Tensor, initial_state: Sequence[tf.Tensor], weights: Sequence[tf.Tensor]
) -> tf.Tensor:
    """Runs `cell` over all steps; differentiable in `pre`, `initial_state` and `weights`.

    Args:
      cell: Equations and derivatives.
      pre: [time, batch, n] pre-activations from the inputs; time >= 1.
      initial_state: Tensors [batch, n].
      weights: What a step multiplies with, as tensors (read variables first).

    Returns:
      `state[0]` after every step, [time, batch, n].
    """
    num_state = len(initial_state)

    @tf.custom_gradient
    def differentiable(pre, *rest):
        start, weights = rest[:num_state], rest[num_state:]
        state_arrays, saved_arrays = _forward(cell, pre, start, weights)
        outputs = state_arrays[0].stack()

        def gradient(d_outputs):
            after = (outputs, *(array.stack() for array in state_arrays[1:]))
            before = tuple(
                tf.concat([first[tf.newaxis], states[:-1]], axis=0)
                for first, states in zip(start, after, strict=True)
            )
            saved = tuple(array.stack() for array in saved_arrays)
            factors = cell.factors(before, after, saved)
            d_pre, d_start, rights = _backward(
                cell, factors, d_outputs, start, weights, pre.shape[-1]
            )
            d_weights = cell.weight_gradients(before, after, saved, d_pre, rights)
            return d_pre, *d_start, *d_weights

        return outputs, gradient

    return differentiable(pre, *initial_state, *weights)


def project_inputs(inputs: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """`inputs @ kernel + bias` for all steps in one GEMM: [time, batch, m] -> [time, batch, n]."""
    shape = tf.shape(inputs)
    flat = tf.nn.bias_add(tf.matmul(tf.reshape(inputs, [-1, inputs.shape[-1]]), kernel), bias)
    return tf.reshape(flat, [shape[0], shape[1], kernel.shape[-1]])


def sum_of_products(left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
    """`sum over time, batch of left^T right` in one GEMM: [t, b, m], [t, b, n] -> [m, n]."""
    return tf.matmul(
        tf.reshape(left, [-1, left.shape[-1]]),
        tf.reshape(right, [-1, right.shape[-1]]),
        transpose_a=True,
    )


def _forward(cell, pre, start, weights):
    """The loop over time; TensorArrays of the states after, and of what is saved for, each step."""
    time = tf.shape(pre)[0]

    def body(t, state, state_arrays, saved_arrays):
        state, saved = cell.forward(pre[t], state, weights)
        return t + 1, state, _write(state_arrays, t, state), _write(saved_arrays, t, saved)

    _, _, state_arrays, saved_arrays = tf.while_loop(
        lambda t, *_: t < time,
        body,
        (
            tf.constant(0),
            tuple(start),
            _arrays(time, [state.shape[-1] for state in start]),
            _arrays(time, cell.saved_sizes),
        ),
        parallel_iterations=1,
    )
    return state_arrays, saved_arrays


def _backward(cell, factors, d_outputs, start, weights, pre_size):
    """The loop back; gradients at `pre`, at the initial state, and the cell's own `rights`."""
    time = tf.shape(d_outputs)[0]

    def body(t, d_state, d_pres, rights):
        d_state = (d_state[0] + d_outputs[t], *d_state[1:])
        d_pre, d_state, new_rights = cell.backward(
            tuple(factor[t] for factor in factors), d_state, weights
        )
        return t - 1, d_state, _write(d_pres, t, (d_pre,)), _write(rights, t, new_rights)

    _, d_start, d_pres, rights = tf.while_loop(
        lambda t, *_: t >= 0,
        body,
        (
            time - 1,
            tuple(tf.zeros_like(state) for state in start),
            _arrays(time, [pre_size]),
            _arrays(time, cell.right_sizes),
        ),
        parallel_iterations=1,
    )
    return d_pres[0].stack(), d_start, tuple(array.stack() for array in rights)


def _arrays(time, sizes):
    return tuple(tf.TensorArray(tf.float32, time, element_shape=[None, size]) for size in sizes)


def _write(arrays, t, values):
    return tuple(array.write(t, value) for array, value in zip(arrays, values, strict=True))
