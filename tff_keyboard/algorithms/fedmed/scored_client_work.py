"""Client work that also reports the values of FedMed's weights: local loss and JS per layer.

It wraps any client work that returns a model update and a number of examples. A client's loss is
"computed at the tail of local training" (section 3.4): the trained model runs forwards once over
the client's own data. Client work with a loss (`client_training.py`) computes it while the trained
model is in memory. For other client work, the client builds the trained model again.

Source: Wu, Liang & Wang 2020, Algorithm 1, lines of the worker, https://doi.org/10.3390/s20144048.
"""

import collections
from collections.abc import Callable

import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.aggregators.layers import Layer, resolve_layers
from tff_keyboard.algorithms.fedmed.js_divergence import js_divergences_of_update
from tff_keyboard.data import elements


def build_scored_client_work(
    inner: tff.learning.templates.ClientWorkProcess,
    model_fn: Callable[[], tff.learning.models.VariableModel],
    *,
    layers_of: Callable[[tff.Type], tuple[Layer, ...]] = resolve_layers,
) -> tff.learning.templates.ClientWorkProcess:
    """Returns `inner` with `fedmed_weight_type` as its clients' weight.

    Args:
      inner: Returns model updates (server minus client), and as weight either a float number of
        examples or `OrderedDict(num_examples, loss)`. 0 examples exclude a client.
      model_fn: Builds the model, as `inner` does. It runs again only if `inner` reports no loss.
        The loss is then the mean of `forward_pass` losses of the trained model over batches,
        weighted by their `num_examples` (tokens or messages, as the model counts).
      layers_of: The layers of an update of a type: `FedMedFactory.layers_of` of the aggregator.

    Returns:
      Client work with the state, measurements and hyperparameters of `inner`. A client whose loss
      or divergence is not finite gets weight 0.
    """
    state_type, weights_type, data_type = inner.next.type_signature.parameter
    result_type = inner.next.type_signature.result.result
    layers = layers_of(result_type.member.update)

    @tf.function(autograph=False)
    def scored(server_weights, client_result, num_examples, loss):
        """Returns the result with a weight of examples, loss and JS divergences [layers].

        The weight is 0 if the loss or a divergence is not finite.
        """
        divergence = js_divergences_of_update(
            server_weights.trainable, client_result.update, layers
        )
        weight = collections.OrderedDict(
            num_examples=tf.cast(num_examples, tf.float32), loss=loss, divergence=divergence
        )
        sound = tf.logical_and(
            tf.math.is_finite(loss), tf.reduce_all(tf.math.is_finite(divergence))
        )
        return tff.learning.templates.ClientResult(
            update=client_result.update,
            update_weight=tf.nest.map_structure(
                lambda x: tf.where(sound, x, tf.zeros_like(x)), weight
            ),
        )

    if isinstance(result_type.member.update_weight, tff.TensorType):

        @tff.tensorflow.computation(weights_type.member, result_type.member, data_type.member)
        def score(server_weights, client_result, data):
            model = model_fn()
            batches = elements.read(data, model.input_spec)
            variables = tff.learning.models.ModelWeights.from_model(model)

            def add_batch(sums, batch):
                output = model.forward_pass(batch, training=False)
                count = tf.cast(output.num_examples, tf.float32)
                return sums[0] + output.loss * count, sums[1] + count

            @tf.function
            def local_loss():
                """Returns the mean loss of the trained model on the client's batches."""
                trainable = tf.nest.map_structure(
                    tf.subtract, server_weights.trainable, client_result.update
                )
                trained = tff.learning.models.ModelWeights(trainable, server_weights.non_trainable)
                tf.nest.map_structure(lambda v, x: v.assign(x), variables, trained)
                start = (tf.constant(0.0), tf.constant(0.0))
                total, count = elements.fold(add_batch, start, batches, model.input_spec)
                return tf.math.divide_no_nan(total, count)

            num_examples = client_result.update_weight
            return scored(server_weights, client_result, num_examples, local_loss())

    else:

        @tff.tensorflow.computation(weights_type.member, result_type.member, data_type.member)
        def score(server_weights, client_result, data):
            del data
            return scored(server_weights, client_result, **client_result.update_weight)

    @tff.federated_computation(state_type, weights_type, data_type)
    def next_fn(state, weights, data):
        output = inner.next(state, weights, data)
        result = tff.federated_map(score, (weights, output.result, data))
        return tff.templates.MeasuredProcessOutput(output.state, result, output.measurements)

    return tff.learning.templates.ClientWorkProcess(
        inner.initialize,
        next_fn,
        get_hparams_fn=inner.get_hparams,
        set_hparams_fn=inner.set_hparams,
    )
