"""Local training that also tells its mean loss, at no extra pass over the data.

The same loop as TFF's `build_model_delta_client_work`, operation by operation: delta and weight
have the same bits (tested). TFF's returns both and nothing else, and its metrics go straight into
a sum over clients, so a loss *per client* has to be taken out of the loop itself.

Source of the loop: McMahan et al. 2017, Algorithm 1, ClientUpdate,
https://arxiv.org/abs/1602.05629.
"""

import collections

import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.learning.composition import ClientWork, ModelFn


def build_loss_reporting_client_work(
    model_fn: ModelFn,
    optimizer: tff.learning.optimizers.Optimizer,
    *,
    uniform_weights: bool = False,
) -> ClientWork:
    """Client work whose weight is `OrderedDict(num_examples, loss)`, both float32.

    Args:
      model_fn: Builds the model; its `forward_pass` reports `num_examples` (tokens or messages).
      optimizer: Local; its state starts anew on every client in every round.
      uniform_weights: Whether `num_examples` is 1 for every client.

    Returns:
      Client work with TFF's state (the optimizer's hyperparameters), metrics and delta (server
      minus client). `loss` is the mean of the losses of all batches of all epochs, each taken
      before its step, weighted by the batch's `num_examples`; 0 without data. A client whose delta
      is not finite sends zeros, weight 0, loss 0 and no metrics.
    """
    with tf.Graph().as_default():  # the model's variables stay out of the caller's graph
        model = model_fn()
        sum_metrics = tff.learning.metrics.sum_then_finalize(model.metric_finalizers())
    weights_type = tff.learning.models.weights_type_from_model(model)
    data_type = tff.SequenceType(tff.types.tensorflow_to_type(model.input_spec))
    initial_hparams = optimizer.get_hparams(optimizer.initialize(tf.TensorSpec([], tf.float32)))

    @tff.federated_computation
    def initialize():
        return tff.federated_value(initial_hparams, tff.SERVER)

    hparams_type = initialize.type_signature.result.member

    @tff.tensorflow.computation(hparams_type, weights_type, data_type)
    def train(hparams, server_weights, data):
        model = model_fn()
        weights = tff.learning.models.ModelWeights.from_model(model)
        trainable = tuple(tf.nest.flatten(weights.trainable))

        @tf.function
        def train_on_all_batches():
            tf.nest.map_structure(lambda v, x: v.assign(x), weights, server_weights)
            optimizer_state = optimizer.set_hparams(
                optimizer.initialize(
                    tf.nest.map_structure(lambda v: tf.TensorSpec(v.shape, v.dtype), trainable)
                ),
                hparams,
            )
            num_examples = tf.constant(0, tf.int64)
            total_loss = tf.constant(0.0, tf.float64)
            for batch in iter(data):  # not reduce: see `composition.LOOP`
                with tf.GradientTape() as tape:
                    output = model.forward_pass(batch, training=True)
                gradients = tape.gradient(output.loss, trainable)
                optimizer_state, updated = optimizer.next(
                    optimizer_state, trainable, tuple(gradients)
                )
                tf.nest.map_structure(lambda v, x: v.assign(x), trainable, updated)
                count = tf.cast(output.num_examples, tf.int64)
                num_examples += count
                total_loss += tf.cast(output.loss, tf.float64) * tf.cast(count, tf.float64)

            update = tf.nest.map_structure(tf.subtract, server_weights.trainable, weights.trainable)
            is_finite = tf.reduce_all(
                [tf.reduce_all(tf.math.is_finite(x)) for x in tf.nest.flatten(update)]
            )
            loss = tf.math.divide_no_nan(total_loss, tf.cast(num_examples, tf.float64))
            weight = collections.OrderedDict(
                num_examples=tf.constant(1.0)
                if uniform_weights
                else tf.cast(num_examples, tf.float32),
                loss=tf.cast(loss, tf.float32),
            )
            sent = (update, weight)
            # A condition, unlike `tf.where`, copies nothing on the clients that are fine.
            update, weight = tf.cond(
                is_finite, lambda: sent, lambda: tf.nest.map_structure(tf.zeros_like, sent)
            )
            if not is_finite:
                model.reset_metrics()
            result = tff.learning.templates.ClientResult(update=update, update_weight=weight)
            return result, model.report_local_unfinalized_metrics()

        return train_on_all_batches()

    @tff.tensorflow.computation(hparams_type)
    def get_hparams(state):
        return state

    @tff.tensorflow.computation(hparams_type, hparams_type)
    def set_hparams(state, hparams):
        del state
        return hparams

    @tff.federated_computation(
        initialize.type_signature.result,
        tff.FederatedType(weights_type, tff.CLIENTS),
        tff.FederatedType(data_type, tff.CLIENTS),
    )
    def next_fn(state, weights, data):
        hparams = tff.federated_broadcast(state)
        result, metrics = tff.federated_map(train, (hparams, weights, data))
        measurements = tff.federated_zip(collections.OrderedDict(train=sum_metrics(metrics)))
        return tff.templates.MeasuredProcessOutput(state, result, measurements)

    return tff.learning.templates.ClientWorkProcess(
        initialize, next_fn, get_hparams_fn=get_hparams, set_hparams_fn=set_hparams
    )
