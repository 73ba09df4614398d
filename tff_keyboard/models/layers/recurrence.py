"""Runs a recurrent cell over packed sequences with a hand-written backward pass.

Automatic differentiation of a loop over time computes a weight-gradient product *per step*: thin,
memory-bound matrix products. Here the loops contain only operations that depend on the previous
step:

    forward    state[t], saved[t]          = cell.forward(pre[t], state[t-1])
    backward   d_pre[t], d_state[t-1], ... = cell.backward(factors[t], d_state[t])

The products with the inputs (`pre = inputs @ kernel + bias`) and the weight gradients (`sum over t
of left[t]^T right[t]`) are outside the loops, as one GEMM each for all steps. Positions are packed
(`packing.py`): rows whose message has ended leave the state, and enter the backward pass with zero
gradient. A cell defines its equations and their derivatives; this module is independent of them.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import tensorflow as tf

from tff_keyboard.models.layers.packing import Packing

Tensors = tuple[tf.Tensor, ...]


class RecurrentCell(Protocol):
    """The equations of one recurrent cell and their derivatives.

    `weights` are the tensors that a step multiplies with, in an order of the cell's choice.
    `forward`, `factors` and `backward` process one step, tensors [rows, width]. `weight_gradients`
    processes all positions at once, packed tensors [n, width].

    Attributes:
      state_sizes: Widths of the state's parts; the first is the output.
      saved_sizes: Widths of the tensors that `forward` saves.
      right_sizes: Widths of the tensors that `backward` keeps in addition to `d_pre`.
    """

    @property
    def state_sizes(self) -> Sequence[int]: ...
    @property
    def saved_sizes(self) -> Sequence[int]: ...
    @property
    def right_sizes(self) -> Sequence[int]: ...

    def forward(self, pre: tf.Tensor, state: Tensors, weights: Tensors) -> tuple[Tensors, Tensors]:
        """Returns `(new state, saved)`."""

    def factors(self, before: Tensors, saved: Tensors) -> Tensors:
        """Returns the tensors that `backward` needs from the forward pass.

        Args:
          before: The state before the step.
          saved: The saved tensors of the step.
        """

    def backward(
        self, factors: Tensors, d_state: Tensors, weights: Tensors
    ) -> tuple[tf.Tensor, Tensors, Tensors]:
        """Returns `(d_pre, d_state before the step, rights)`."""

    def weight_gradients(
        self, before: Tensors, saved: Tensors, d_pre: tf.Tensor, rights: Tensors
    ) -> Tensors:
        """Returns the gradients of `weights`."""


def run(
    cell: RecurrentCell, pre: tf.Tensor, weights: Sequence[tf.Tensor], packing: Packing
) -> tf.Tensor:
    """Runs `cell` from the zero state over all steps. Differentiable in `pre` and `weights`.

    Args:
      cell: The equations.
      pre: [n, width], the packed pre-activations from the inputs.
      weights: Tensors (read variables first).
      packing: The packing of the n positions.

    Returns:
      `state[0]` at every position, [n, cell.state_sizes[0]] packed.
    """

    @tf.custom_gradient
    def differentiable(pre, *weights):
        steps = _Steps(packing)
        outputs, before, saved = _forward(cell, pre, weights, steps)

        def gradient(d_outputs):
            d_pre, rights = _backward(cell, before, saved, d_outputs, weights, steps, pre.shape[-1])
            states_before = _concat(before, cell.state_sizes)
            saved_columns = _concat(saved, cell.saved_sizes)
            return d_pre, *cell.weight_gradients(states_before, saved_columns, d_pre, rights)

        return _concat([outputs], cell.state_sizes[:1])[0], gradient

    return differentiable(pre, *weights)


class Factors(NamedTuple):
    """What `RecurrentCell.weight_gradients` needs at each of n packed positions, [n, width].

    Attributes:
      before: The state before the step.
      saved: The saved tensors of the step.
      d_pre: The gradient of `pre`.
      rights: The tensors that `backward` keeps.
    """

    before: Tensors
    saved: Tensors
    d_pre: tf.Tensor
    rights: Tensors


def factors(
    cell: RecurrentCell,
    pre: tf.Tensor,
    weights: Sequence[tf.Tensor],
    packing: Packing,
    d_outputs_of: Callable[[tf.Tensor], tf.Tensor],
) -> Factors:
    """Runs `cell` forwards and backwards, without the products for the gradients of the weights.

    Args:
      cell: The equations.
      pre: As for `run`.
      weights: As for `run`.
      packing: The packing of the n positions.
      d_outputs_of: Converts the result of `run` to its gradient, [n, cell.state_sizes[0]] packed.
    """
    steps = _Steps(packing)
    outputs, before, saved = _forward(cell, pre, weights, steps)
    d_outputs = d_outputs_of(_concat([outputs], cell.state_sizes[:1])[0])
    d_pre, rights = _backward(cell, before, saved, d_outputs, weights, steps, pre.shape[-1])
    return Factors(
        _concat(before, cell.state_sizes), _concat(saved, cell.saved_sizes), d_pre, rights
    )


def sum_of_products(left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
    """Computes `sum over positions of left^T right` in one GEMM: [n, m], [n, k] -> [m, k]."""
    return tf.matmul(left, right, transpose_a=True)


def _forward(cell, pre, weights, steps):
    """Runs the forward loop over all steps.

    Returns TensorArrays with one entry per step, [rows, width]: the outputs, and for each part of
    the state its value before the step, and each tensor that the cell saves.
    """

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
            tuple(_zero_state(steps.max_rows, size) for size in cell.state_sizes),
            _arrays(steps, cell.state_sizes[:1])[0],
            _arrays(steps, cell.state_sizes),
            _arrays(steps, cell.saved_sizes),
        ),
        parallel_iterations=1,
    )
    return outputs, before, saved


def _backward(cell, before, saved, d_outputs, weights, steps, pre_size):
    """Runs the backward loop from the last step to the first.

    Returns the gradient of `pre` [n, pre_size], and the tensors that `cell.backward` keeps for the
    gradients of its weights (`rights`), each packed [n, width].

    Args:
      cell: The equations.
      before: TensorArrays of the states before each step, from `_forward`.
      saved: TensorArrays of the saved tensors, from `_forward`.
      d_outputs: The gradient of the outputs, packed [n, width].
      weights: As for `run`.
      steps: The packing.
      pre_size: Width of `pre`.
    """

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
            tuple(_zero_state(0, size) for size in cell.state_sizes),
            _arrays(steps, [pre_size])[0],
            _arrays(steps, cell.right_sizes),
        ),
        parallel_iterations=1,
    )
    return _concat([d_pres], [pre_size])[0], _concat(rights, cell.right_sizes)


class _Steps:
    """A packing in a form that needs one small lookup per step for each kind of slice.

    The bookkeeping of a step in a loop over time takes as long as its arithmetic, so everything
    that does not depend on the previous step is stacked here once.
    """

    def __init__(self, packing):
        counts, starts = packing.counts, packing.starts
        zeros = tf.zeros_like(counts)
        ended = counts - tf.concat([counts[1:], zeros[:1]], axis=0)
        self.number = tf.size(counts)
        self.max_rows = tf.reduce_sum(counts[:1])  # 0 if there are no steps
        self._begins = tf.stack([starts, zeros], axis=1)
        self._sizes = tf.stack([counts, zeros - 1], axis=1)  # -1: all columns
        self._paddings = tf.stack([tf.stack([zeros, ended], 1), tf.zeros_like(self._begins)], 1)

    def rows_of(self, t, values):
        """Returns the rows of step t from packed values [n, width]."""
        return self._cut(values, tf.gather(self._begins, t), t)

    def first_rows(self, t, values):
        """Returns the rows of step t - 1 that continue at step t."""
        return self._cut(values, [0, 0], t)

    def with_ended_rows(self, t, values):
        """Returns the rows of step t + 1, followed by zeros for the rows that end with step t."""
        return tf.pad(values, tf.gather(self._paddings, t))

    def _cut(self, values, begin, t):
        """Returns as many rows of `values` as step t has, from `begin`."""
        rows = tf.slice(values, begin, tf.gather(self._sizes, t))
        rows.set_shape([None, values.shape[1]])
        return rows


def _zero_state(rows, size):
    # The number of rows changes from step to step, so it must not be constant in the loop.
    return tf.compat.v1.placeholder_with_default(tf.zeros([rows, size]), [None, size])


def _arrays(steps, sizes):
    """Returns a TensorArray [rows, size] with one entry per step for each size."""
    return tuple(
        tf.TensorArray(
            tf.float32,
            steps.number,
            element_shape=[None, size],
            infer_shape=False,
            clear_after_read=False,  # read by the backward pass and the weight gradients
        )
        for size in sizes
    )


def _write(arrays, t, values):
    """Returns the arrays after `values` were written to their entry t."""
    return tuple(array.write(t, value) for array, value in zip(arrays, values, strict=True))


def _read(arrays, t):
    return tuple(array.read(t) for array in arrays)


def _concat(arrays, sizes):
    """Returns the entries of each array as one packed tensor [n, size]."""
    if tf.executing_eagerly() and len(arrays) and not arrays[0].size():
        return tuple(tf.zeros([0, size]) for size in sizes)  # an eager `concat` would fail
    return tuple(array.concat() for array in arrays)
