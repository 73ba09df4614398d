"""The client work of uploads: a client's dataset is its device's upload, and nothing is trained.

A client has one element: `delta` (trained minus initial weights, [parameters] float32) and
`claims`, its weight and its loss, [2] float32. The work splits it into the result that local
training would have returned. So aggregation, guards, noise and the server's step are those of a
simulation, on the same numbers.
"""

import collections
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.algorithms.client_packing import round_form
from tff_keyboard.algorithms.cohort_batcher import CohortBatcher
from tff_keyboard.algorithms.composition import ClientWork


def upload_spec(parameters: int) -> collections.OrderedDict[str, tf.TensorSpec]:
    """Returns the spec of a client's element."""
    return collections.OrderedDict(
        claims=tf.TensorSpec([2], tf.float32), delta=tf.TensorSpec([parameters], tf.float32)
    )


def element(delta: np.ndarray, weight: float, loss: float) -> collections.OrderedDict[str, Any]:
    """Returns a client's element, as in `upload_spec`."""
    return collections.OrderedDict(claims=np.array([weight, loss], np.float32), delta=delta)


def parts_of(total: np.ndarray) -> Iterator[np.ndarray]:
    """Yields float32 vectors [parameters] that add up to integers exactly: 24 bits in each vector.

    >>> [part.tolist() for part in parts_of(np.array([2**24 + 1, -3]))]
    [[1.0, -3.0], [16777216.0, 0.0]]
    """
    remainder, scale = total.astype(np.int64), 1.0
    while scale == 1.0 or remainder.any():
        low = np.fmod(remainder, 2**24)
        yield low.astype(np.float32) * np.float32(scale)
        remainder, scale = (remainder - low) >> 24, scale * 2**24


def build_upload_work(
    training: ClientWork, *, uniform_weights: bool = False, tells_loss: bool = False
) -> ClientWork:
    """Builds client work over uploads that has the types of `training`.

    Args:
      training: Local training of the model. Only its types are used.
      uniform_weights: Whether every client has weight 1, whatever it claims.
      tells_loss: Whether the weight is `OrderedDict(num_examples, loss)`, as FedMed needs it.
    """
    weights_type = training.next.type_signature.parameter[1]
    shapes = [leaf.shape for leaf in tff.structure.flatten(weights_type.member["trainable"])]
    sizes = [int(np.prod(shape, dtype=np.int64)) for shape in shapes]
    data_type = tff.SequenceType(tff.types.tensorflow_to_type(upload_spec(sum(sizes))))

    @tff.federated_computation
    def initialize():
        return tff.federated_value((), tff.SERVER)

    @tff.tensorflow.computation(data_type)
    def read(dataset):
        """Returns a device's upload as the `ClientResult` of TFF, and its training metrics."""
        upload = dataset.get_single_element()
        claimed, loss = tf.unstack(upload["claims"])
        # TFF's server optimizer takes the update as a gradient: initial minus trained weights.
        parts = tf.split(tf.negative(upload["delta"]), sizes)
        update = [tf.reshape(part, shape) for part, shape in zip(parts, shapes, strict=True)]
        weight = tf.ones([]) if uniform_weights else claimed
        if tells_loss:
            weight = collections.OrderedDict(num_examples=weight, loss=loss)
        tokens = tf.cast(claimed, tf.float64)
        metrics = collections.OrderedDict(nll=tf.cast(loss, tf.float64) * tokens, tokens=tokens)
        return tff.learning.templates.ClientResult(update, weight), metrics

    @tff.federated_computation(
        initialize.type_signature.result,
        weights_type,
        tff.FederatedType(data_type, tff.CLIENTS),
    )
    def next_fn(state, weights, data):
        del weights
        result, metrics = tff.federated_map(read, data)
        sums = tff.federated_zip(collections.OrderedDict(train=tff.federated_sum(metrics)))
        return tff.templates.MeasuredProcessOutput(state, result, sums)

    return tff.learning.templates.ClientWorkProcess(initialize, next_fn)


def hand_over(uploads: list[Any], batcher: CohortBatcher, parameters: int) -> list[Any]:
    """Returns the input of `next`: packs of uploads, as `batcher` distributes them.

    Args:
      uploads: One `element` for each upload, in the order of the round. The list is emptied,
        because packs are copies and a round should be in memory only once.
      batcher: Distributes the uploads.
      parameters: Number of parameters.
    """

    def taken(position: int) -> Any:
        """Returns an upload, and gives it up, so that its memory is free after its use."""
        upload, uploads[position] = uploads[position], None
        return upload

    spec = upload_spec(parameters)
    groups = batcher.plan([1] * len(uploads))
    packs = [round_form.make_pack([[taken(p)] for p in group], spec) for group in groups]
    uploads.clear()
    return packs
