"""Embedding lookup in a table that is also the output table, with one dense gradient.

Automatic differentiation gives a tied table two gradients, a sparse one (lookup) and a dense one
(softmax), expands the sparse one to a second [vocabulary, dim] matrix and adds the two. Here the
table *passes through* the lookup: the dense gradient arrives first, and the gradients of the
looked-up rows are added to it in place.
"""

import tensorflow as tf


@tf.custom_gradient
def lookup_tied(table: tf.Tensor, ids: tf.Tensor):
    """Returns `(table[ids] [..., dim], table)`. Compute the output layer from the second one.

    Args:
      table: [vocabulary, dim] float32.
      ids: [...] int32.
    """

    def gradient(d_rows, d_table):
        d_rows = tf.reshape(d_rows, [-1, tf.shape(d_rows)[-1]])
        return tf.tensor_scatter_nd_add(d_table, tf.reshape(ids, [-1, 1]), d_rows), None

    return (tf.gather(table, ids), tf.identity(table)), gradient


@tf.custom_gradient
def lookup(table: tf.Tensor, ids: tf.Tensor):
    """Returns `tf.gather(table, ids)` with a dense gradient, which TFF's optimizers need."""

    def gradient(d_rows):
        d_rows = tf.reshape(d_rows, [-1, tf.shape(d_rows)[-1]])
        indices = tf.reshape(ids, [-1, 1])
        return tf.tensor_scatter_nd_add(tf.zeros_like(table), indices, d_rows), None

    return tf.gather(table, ids), gradient
