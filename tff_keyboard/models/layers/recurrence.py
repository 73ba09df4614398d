"""Runs a recurrent cell over packed sequences with a hand-written backward pass.

Automatic differentiation of a loop over time computes a weight-gradient product *per step*: thin,
memory-bound matrix products. Here the loops hold only what depends on the step before:

    forward    state[t], saved[t]          = cell.forward(pre[t], state[t-1])
    backward   d_pre[t], d_state[t-1], ... = cell.backward(factors[t], d_state[t])

The products with the inputs (`pre = inputs @ kernel + bias`) and the weight gradients (`sum over t
of left[t]^T right[t]`) stay outside, one GEMM each for all steps. Positions are packed
(`packing.py`): rows whose message has ended leave the state, and come back with zero gradient on
the way back. A cell supplies its equations and their derivatives; nothing else about it is known
here.
"""

from collections.abc import Sequence
from typing import Protocol

import tensorflow as tf

from tff_keyboard.models.layers.packing import Packing

Tensors = tuple[tf.Tensor, ...]


class Cell(Protocol):
    """The equations of one recurrent cell and their derivatives.

    `weights` are what a step multiplies with; their order is the cell's own. `forward`, `factors`
    and `backward` work on one step, tensors [rows, width]; `weight_gradients` on all positions at
    once, tensors [n, width] packed.

    Attributes:
      state_sizes: Widths of the state's parts; the first is the output.
      saved_sizes: Widths of the tensors that `forward` saves.
      right_sizes: Widths of the tensors that `backward` keeps beside `d_pre`.
    """

    @property
    def state_sizes(self) -> Sequence[int]: ...
    @property
    def saved_sizes(self) -> Sequence[int]: ...
    @property
    def right_sizes(self) -> Sequence[int]: ...

    def forward(self, pre: tf.Tensor, state: Tensors, weights: Tensors) -> tuple[Tensors, Tensors]:
        """`(new state, saved)`."""

    def factors(self, before: Tensors, saved: Tensors) -> Tensors:
        """What `backward` needs of the forward pass; `before` is the state before each step."""

    def backward(
        self, factors: Tensors, d_state: Tensors, weights: Tensors
    ) -> tuple[tf.Tensor, Tensors, Tensors]:
        """`(d_pre, d_state before the step, rights)`."""

    def weight_gradients(
        self, before: Tensors, saved: Tensors, d_pre: tf.Tensor, rights: Tensors
    ) -> Tensors:
        """Gradients of `weights`."""


def run(cell: Cell, pre: tf.Tensor, weights: Sequence[tf.Tensor], packing: Packing) -> tf.Tensor:
    """Runs `cell` from the zero state over all steps; differentiable in `pre` and `weights`.

    `pre` is [n, width], the packed pre-activations from the inputs; `weights` are tensors (read
    variables first). The output is `state[0]` at every position, [n, cell.state_sizes[0]] packed.
    """

    @tf.custom_gradient
    def differentiable(pre, *weights):
        steps = _Steps(packing)
        outputs, before, saved = _forward(cell, pre, weights, steps)

        def gradient(d_outputs):
            d_pre, rights = _backward(cell, before, saved, d_outputs, weights, steps, pre.shape[-1])
            kept_before = _concat(before, cell.state_sizes)
            kept = _concat(saved, cell.saved_sizes)
            return d_pre, *cell.weight_gradients(kept_before, kept, d_pre, rights)

        return _concat([outputs], cell.state_sizes[:1])[0], gradient

    return differentiable(pre, *weights)


def sum_of_products(left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
    """`sum over positions of left^T right` in one GEMM: [n, m], [n, k] -> [m, k]."""
    return tf.matmul(left, right, transpose_a=True)


def _forward(cell, pre, weights, steps):
    """The loop over time: TensorArrays of the outputs, the states before and what is saved."""

    def body(t, state, outputs, before, saved):
        state = tuple(steps.first_rows(t, part) for part in state)
        before = _write(before, t, state)
        state, new_saved = cell.forward(steps.rows_of(t, pre), state, weights)
        return t + 1, state, outputs.write(t, state[0]), before, _write(saved, t, new_saved)

    _, _, outputs, before, saved = tf.while_loop(
        lambda t, *_: t < steps.number,
        body,
        (
            0,
            tuple(_zeros(steps.most_rows, size) for size in cell.state_sizes),
            _arrays(steps, cell.state_sizes[:1])[0],
            _arrays(steps, cell.state_sizes),
            _arrays(steps, cell.saved_sizes),
        ),
        parallel_iterations=1,
    )
    return outputs, before, saved


def _backward(cell, before, saved, d_outputs, weights, steps, pre_size):
    """The loop back: gradients at `pre`, and the cell's own `rights`, packed."""

    def body(t, d_state, d_pres, rights):
        # Rows that ended at step t had no later step: their gradient starts from zero.
        d_state = tuple(steps.with_ended_rows(t, part) for part in d_state)
        d_state = (d_state[0] + steps.rows_of(t, d_outputs), *d_state[1:])
        factors = cell.factors(_read(before, t), _read(saved, t))
        d_pre, d_state, new_rights = cell.backward(factors, d_state, weights)
        return t - 1, d_state, d_pres.write(t, d_pre), _write(rights, t, new_rights)

    _, _, d_pres, rights = tf.while_loop(
        lambda t, *_: t >= 0,
        body,
        (
            steps.number - 1,
            tuple(_zeros(0, size) for size in cell.state_sizes),
            _arrays(steps, [pre_size])[0],
            _arrays(steps, cell.right_sizes),
        ),
        parallel_iterations=1,
    )
    return _concat([d_pres], [pre_size])[0], _concat(rights, cell.right_sizes)


class _Steps:
    """A packing as the loops read it: one small lookup a step for each way to cut.

    A loop over time spends as long on the bookkeeping of a step as on its arithmetic, so whatever
    does not depend on the step before is stacked here, once.
    """

    def __init__(self, packing):
        counts, starts = packing.counts, packing.starts
        zeros = tf.zeros_like(counts)
        ended = counts - tf.concat([counts[1:], zeros[:1]], axis=0)
        self.number = tf.size(counts)
        self.most_rows = tf.reduce_sum(counts[:1])  # 0 if there are no steps
        self._begins = tf.stack([starts, zeros], axis=1)
        self._sizes = tf.stack([counts, zeros - 1], axis=1)  # -1: all columns
        self._paddings = tf.stack([tf.stack([zeros, ended], 1), tf.zeros_like(self._begins)], 1)

    def rows_of(self, t, values):
        """Step t's rows of packed values [n, width]."""
        return self._cut(values, tf.gather(self._begins, t), t)

    def first_rows(self, t, values):
        """The rows that are still there at step t, of the step before."""
        return self._cut(values, [0, 0], t)

    def with_ended_rows(self, t, values):
        """Rows of step t + 1, and zeros for those that ended with step t."""
        return tf.pad(values, tf.gather(self._paddings, t))

    def _cut(self, values, begin, t):
        rows = tf.slice(values, begin, tf.gather(self._sizes, t))
        rows.set_shape([None, values.shape[1]])
        return rows


def _zeros(rows, size):
    # The number of rows changes from step to step, so the loop must not take it for a constant.
    return tf.compat.v1.placeholder_with_default(tf.zeros([rows, size]), [None, size])


def _arrays(steps, sizes):
    return tuple(
        tf.TensorArray(
            tf.float32,
            steps.number,
            element_shape=[None, size],
            infer_shape=False,
            clear_after_read=False,  # the way back reads, then the weight gradients concatenate
        )
        for size in sizes
    )


def _write(arrays, t, values):
    return tuple(array.write(t, value) for array, value in zip(arrays, values, strict=True))


def _read(arrays, t):
    return tuple(array.read(t) for array in arrays)


def _concat(arrays, sizes):
    if tf.executing_eagerly() and len(arrays) and not arrays[0].size():
        return tuple(tf.zeros([0, size]) for size in sizes)  # eager arrays cannot do this
    return tuple(array.concat() for array in arrays)
