"""The client work of uploads: a client's dataset is what its device sent, and nothing is trained.

A client has one element: delta (trained minus initial weights, [parameters] float32) and claims,
which are its weight and its loss, [2] float32. The work takes it apart into what local training
would have returned, so that aggregation, guards, noise and the server's step are those of a
simulation, on the same numbers.
"""

import collections
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.federated.learning.client_delivery import Handover
from tff_keyboard.federated.learning.composition import ClientWork
from tff_keyboard.packs import compiler


def upload_spec(parameters: int) -> collections.OrderedDict[str, tf.TensorSpec]:
    """Spec of a client's element."""
    return collections.OrderedDict(
        claims=tf.TensorSpec([2], tf.float32), delta=tf.TensorSpec([parameters], tf.float32)
    )


def element(delta: np.ndarray, weight: float, loss: float) -> collections.OrderedDict[str, Any]:
    """A client's element, as `upload_spec` has it."""
    return collections.OrderedDict(claims=np.array([weight, loss], np.float32), delta=delta)


def parts_of(total: np.ndarray) -> Iterator[np.ndarray]:
    """Float32 vectors that add up to integers exactly, [parameters] each: 24 bits a vector.

    >>> [part.tolist() for part in parts_of(np.array([2**24 + 1, -3]))]
    [[1.0, -3.0], [16777216.0, 0.0]]
    """
    left, scale = total.astype(np.int64), 1.0
    while scale == 1.0 or left.any():
        low = np.fmod(left, 2**24)
        yield low.astype(np.float32) * np.float32(scale)
        left, scale = (left - low) >> 24, scale * 2**24


def build_upload_work(
    training: ClientWork, *, uniform_weights: bool = False, tells_loss: bool = False
) -> ClientWork:
    """Client work over uploads with the types of `training`, which it stands for.

    Args:
      training: Local training of the model; none of it is run.
      uniform_weights: Whether every client weighs 1, whatever it claims.
      tells_loss: Whether the weight is `OrderedDict(num_examples, loss)`, as FedMed asks for.
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
        upload = dataset.get_single_element()
        claimed, loss = tf.unstack(upload["claims"])
        # TFF's update is what the server's optimizer takes as a gradient: initial minus trained.
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


def hand_over(uploads: list[Any], handover: Handover, parameters: int) -> list[Any]:
    """What `next` takes: packs of uploads, or a dataset for each, as `handover` deals them.

    Args:
      uploads: An `element` each, in the order of the round. The list is emptied: packs are copies,
        and a round is in memory once, not twice.
    """

    def taken(position: int) -> Any:
        one, uploads[position] = uploads[position], None
        return one

    groups = handover.plan([1] * len(uploads))
    found = [_made([taken(p) for p in group], handover, parameters) for group in groups]
    uploads.clear()
    return found


def _made(group: Sequence[Any], handover: Handover, parameters: int) -> Any:
    if handover.clients_per_pack is not None:
        return compiler.make_pack([[one] for one in group], upload_spec(parameters))
    (one,) = group
    return tf.data.Dataset.from_tensors(one)
