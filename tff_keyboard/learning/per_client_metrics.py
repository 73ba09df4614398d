"""Federated evaluation that keeps one row of sums per client.

TFF's own metric aggregation adds clients up before anyone can ask how much they differ; the
jackknife over users needs the rows. This aggregation process concatenates them: memory grows with
the clients evaluated (a few dozen numbers each), never with the model. Rows are in the order of
the clients given, also over several workers. In a simulation the server may see such rows; a
deployment must not, and would aggregate sums.
"""

import collections
from collections.abc import Callable

import tensorflow as tf
import tensorflow_federated as tff


def per_client_rows(
    model_fn: Callable[[], tff.learning.models.VariableModel],
) -> tff.templates.AggregationProcess:
    """Stateless aggregation of unfinalised metrics into `[clients, ...]` tensors.

    Args:
      model_fn: Builds the model whose `report_local_unfinalized_metrics` is a flat mapping of name
        to tensor.

    Returns:
      A process for `build_fed_eval(metrics_aggregation_process=...)`; both of its results (current
      round, all rounds) are the rows: name -> [clients, ...].
    """
    with tf.Graph().as_default():
        model = model_fn()  # a tf.function method holds its object only weakly
        local = model.report_local_unfinalized_metrics()
        local_type = tff.types.StructWithPythonType(
            [(k, tff.TensorType(v.dtype.as_numpy_dtype, v.shape)) for k, v in local.items()],
            collections.OrderedDict,
        )
        names = list(local)
        shapes = {k: v.shape.as_list() for k, v in local.items()}
        dtypes = {k: v.dtype for k, v in local.items()}
    rows_type = tff.types.StructWithPythonType(
        [(k, tff.TensorType(dtypes[k].as_numpy_dtype, [None, *shapes[k]])) for k in names],
        collections.OrderedDict,
    )

    @tff.tensorflow.computation
    def no_rows():
        return collections.OrderedDict((k, tf.zeros([0, *shapes[k]], dtypes[k])) for k in names)

    @tff.tensorflow.computation(rows_type, local_type)
    def add_row(rows, row):
        return collections.OrderedDict((k, tf.concat([rows[k], [row[k]]], 0)) for k in names)

    @tff.tensorflow.computation(rows_type, rows_type)
    def join(first, second):
        return collections.OrderedDict((k, tf.concat([first[k], second[k]], 0)) for k in names)

    @tff.tensorflow.computation(rows_type)
    def report(rows):
        return rows

    @tff.federated_computation
    def initialize():
        return tff.federated_value((), tff.SERVER)

    @tff.federated_computation(
        initialize.type_signature.result, tff.FederatedType(local_type, tff.CLIENTS)
    )
    def next_fn(state, local_metrics):
        rows = tff.federated_aggregate(local_metrics, no_rows(), add_row, join, report)
        return tff.templates.MeasuredProcessOutput(
            state, tff.federated_zip((rows, rows)), tff.federated_value((), tff.SERVER)
        )

    return tff.templates.AggregationProcess(initialize, next_fn)
