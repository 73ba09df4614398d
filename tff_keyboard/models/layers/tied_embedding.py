"""Embedding lookup of a table that is also the output table, with one dense gradient.

Automatic differentiation gives a tied table two gradients, a sparse one (lookup) and a dense one
(softmax), writes the sparse one out as a second [vocabulary, dim] matrix and adds the two. Here
the table *passes through* the lookup: its dense gradient comes back first, and the looked-up
rows' gradients are added into it in place.
"""

import tensorflow as tf


@tf.custom_gradient
def lookup_tied(table: tf.Tensor, ids: tf.Tensor):
    """`(table[ids] [..., dim], table)`, the second of which the output layer must be computed from.

    `table` is [vocabulary, dim] float32, `ids` are [...] int32.
    """

    def gradient(d_rows, d_table):
        d_rows = tf.reshape(d_rows, [-1, tf.shape(d_rows)[-1]])
        return tf.tensor_scatter_nd_add(d_table, tf.reshape(ids, [-1, 1]), d_rows), None

    return (tf.gather(table, ids), tf.identity(table)), gradient


@tf.custom_gradient
def lookup(table: tf.Tensor, ids: tf.Tensor):
    """`tf.gather(table, ids)` whose gradient is dense, as TFF's optimizers need it."""

    def gradient(d_rows):
        d_rows = tf.reshape(d_rows, [-1, tf.shape(d_rows)[-1]])
        indices = tf.reshape(ids, [-1, 1])
        return tf.tensor_scatter_nd_add(tf.zeros_like(table), indices, d_rows), None

    return tf.gather(table, ids), gradient
