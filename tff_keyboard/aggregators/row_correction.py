"""Averages the row of a rare word over the few clients that typed it, not over all clients.

A word table has a row for each word. The mean of updates divides a row by the whole cohort even if
only two clients typed its word, so rare rows learn slowly at any learning rate. Each row of the
aggregate is therefore multiplied by

    factor_v = min(largest_factor, N / n_v)

n_v is the number of participations in which the client typed word v (as input or target), and N the
number of all participations, both over all rounds up to this one. A row is pushed up when its word
is typed, and down, by the softmax, when it is not. Both are scaled equally, so their equilibrium
does not change.

Source: Ding et al. 2022, "Federated Submodel Optimization for Hot and Cold Data Features"
(FedSubAvg), Algorithm 1, https://arxiv.org/abs/2109.07704, in which n_m is known beforehand.
"""

import collections
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.aggregators.guards.update_guard import WeightLimit
from tff_keyboard.aggregators.layers import require_float_tensors, tensor_types
from tff_keyboard.aggregators.processes import AggregationProcess, build_process

# Variables whose first axis is the vocabulary.
WORD_TABLES = ("embedding", "output_table", "output_bias")


def row_weight_type(vocabulary_size: int) -> tff.Type:
    """Returns the type of a client's weight: examples (or tokens), and 1 for each word it typed."""
    touched = tff.TensorType(np.float32, [vocabulary_size])
    return tff.to_type(collections.OrderedDict(num_examples=np.float32, touched=touched))


def limit_row_weight(limit_examples: WeightLimit) -> WeightLimit:
    """Returns a limit of client weights: `limit_examples` for examples, and 1 for each word."""

    def limit(weight: Any) -> Any:
        return collections.OrderedDict(
            num_examples=limit_examples(weight["num_examples"]),
            touched=tf.minimum(weight["touched"], 1.0),
        )

    return limit


class RowCorrectionFactory(tff.aggregators.WeightedAggregationFactory):
    """Scales the rows of word tables in the result of `inner`. The weights are `row_weight_type`.

    A client counts if `num_examples` > 0. State: `participations` (float32), `touched` (float32
    [vocabulary]) and `inner`. Measurements: `largest_factor` and `mean_factor` (over the words
    touched in this round, each once; 1 if there are none), `words_touched`, and `inner`.

    Args:
      inner: A weighted factory whose weight is a float32 scalar.
      largest_factor: Bound on the factor, >= 1; 1 changes nothing.
      variable_names: Names of the tensors of an update, in order; those in `WORD_TABLES` are
        scaled.

    Raises:
      ValueError: If an argument is out of range, or no variable is a word table.
    """

    def __init__(
        self,
        inner: tff.aggregators.WeightedAggregationFactory,
        *,
        largest_factor: float,
        variable_names: Sequence[str],
    ):
        if not largest_factor >= 1:
            raise ValueError(f"`largest_factor` must be >= 1, got {largest_factor!r}.")
        self._tables = [i for i, name in enumerate(variable_names) if name in WORD_TABLES]
        if not self._tables:
            raise ValueError(
                f"None of {', '.join(WORD_TABLES)} is among the variables "
                f"{', '.join(variable_names)}: there are no rows to correct."
            )
        self._inner = inner
        self._largest = largest_factor

    def create(self, value_type: tff.Type, weight_type: tff.Type) -> AggregationProcess:
        """See base class."""
        require_float_tensors(value_type, "Row correction")
        tensors = tensor_types(value_type)
        rows = {int(tensors[i].shape[0]) for i in self._tables}
        expected = row_weight_type(min(rows))
        if len(rows) > 1 or not expected.is_assignable_from(tff.to_type(weight_type)):
            raise TypeError(
                f"Row correction of tables of {sorted(rows)} rows needs client weights of type "
                f"{expected}, got {weight_type}: build the client work with "
                "`touched_rows`."
            )
        inner = self._inner.create(value_type, tff.TensorType(np.float32))
        touched_type = tff.TensorType(np.float32, [min(rows)])
        counts_type = tff.to_type(
            collections.OrderedDict(participations=np.float32, touched=touched_type)
        )

        @tff.tensorflow.computation(weight_type)
        def split(weight):
            count = tf.cast(weight["num_examples"] > 0, tf.float32)
            touched = count * weight["touched"]
            counts = collections.OrderedDict(participations=count, touched=touched)
            return weight["num_examples"], counts

        @tff.tensorflow.computation(value_type, counts_type, counts_type)
        def corrected(value, before, of_round):
            """Multiplies the row of word v by participations / touched_v, at most `largest_factor`.

            Returns the corrected update, the counts of all rounds, and the measurements. `before`
            has the counts of earlier rounds, `of_round` those of this round, each [vocabulary].
            """
            total = tf.nest.map_structure(tf.add, before, of_round)
            # A word that no client has typed has n_v = 1.
            ratios = tf.maximum(total["participations"], 1.0) / tf.maximum(total["touched"], 1.0)
            factors = tf.minimum(ratios, self._largest)
            flat = list(tf.nest.flatten(value))
            for i in self._tables:
                shape = [-1, *[1] * (flat[i].shape.rank - 1)]
                flat[i] *= tf.cast(tf.reshape(factors, shape), flat[i].dtype)
            touched_now = tf.cast(of_round["touched"] > 0, tf.float32)
            words = tf.reduce_sum(touched_now)
            mean = tf.math.divide_no_nan(tf.reduce_sum(touched_now * factors), words)
            measurements = collections.OrderedDict(
                largest_factor=tf.reduce_max(factors),
                mean_factor=tf.where(words > 0, mean, 1.0),
                words_touched=tf.cast(words, tf.int32),
            )
            return tf.nest.pack_sequence_as(value, flat), total, measurements

        @tff.tensorflow.computation
        def nothing():
            return collections.OrderedDict(
                participations=tf.constant(0.0), touched=tf.zeros([min(rows)])
            )

        def initialize():
            counts = tff.federated_eval(nothing, tff.SERVER)
            return collections.OrderedDict(counts=counts, inner=inner.initialize())

        def next_fn(state, value, weight):
            examples, counts = tff.federated_map(split, weight)
            output = inner.next(state["inner"], value, examples)
            result, total, measurements = tff.federated_map(
                corrected, (output.result, state["counts"], tff.federated_sum(counts))
            )
            after = collections.OrderedDict(counts=total, inner=output.state)
            measured = collections.OrderedDict(rows=measurements, inner=output.measurements)
            return after, result, measured

        return build_process(initialize, next_fn, value_type, weight_type)
