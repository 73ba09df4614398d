"""Runs step equations over packed sequences in a loop that TensorFlow differentiates.

The loop visits the steps of a packing (`packing.py`): rows whose message has ended leave the state.
`recurrence.py` computes the same values for a cell with a gradient that is written by hand.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf

from tff_keyboard.models.layers.packing import Packing

State = list[tf.Tensor]
Step = Callable[[tf.Tensor, State], tuple[tf.Tensor, State]]


def run(
    step: Step, inputs: tf.Tensor, state_sizes: Sequence[int], width: int, packing: Packing
) -> tf.Tensor:
    """Runs `step` from the zero state over all steps of a packing.

    Args:
      step: Maps `(inputs [rows, embedding], state)` to `(hidden [rows, width], new state)`.
      inputs: [n, embedding], packed.
      state_sizes: Widths of the parts of the state.
      width: Width of the hidden vectors.
      packing: The packing of the n positions.

    Returns:
      The hidden vector at every position, [n, width] packed.
    """
    steps = tf.size(packing.counts)
    rows = tf.reduce_sum(packing.counts[:1])  # 0 if there are no steps

    def body(t, hidden, *state):
        start, count = packing.starts[t], packing.counts[t]
        inputs_now = inputs[start : start + count]
        inputs_now.set_shape([None, inputs.shape[1]])
        new_hidden, new_state = step(inputs_now, [part[:count] for part in state])
        return t + 1, hidden.write(t, new_hidden), *new_state

    hidden = tf.TensorArray(
        tf.float32, steps, element_shape=[None, width], infer_shape=False, clear_after_read=False
    )
    state = [tf.zeros([rows, size]) for size in state_sizes]
    _, hidden, *_ = tf.while_loop(
        lambda t, *_: t < steps,
        body,
        (0, hidden, *state),
        shape_invariants=(
            tf.TensorShape([]),
            tf.TensorShape(None),
            *(tf.TensorShape([None, size]) for size in state_sizes),
        ),
        parallel_iterations=1,
    )
    if tf.executing_eagerly() and not steps:
        return tf.zeros([0, width])  # an eager `concat` of nothing would fail
    return tf.reshape(hidden.concat(), [-1, width])
