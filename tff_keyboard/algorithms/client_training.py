"""Local training: the work of a client in a round of federated averaging.

The loop equals TFF's `build_model_delta_client_work`, operation by operation: update, weight and
metrics have the same bits (tested). In contrast to TFF's work, it takes a client's batches joined
into a few tensors (`data/elements.py`), reports the mean loss of one client, which FedMed needs for
its weights (TFF adds it up over clients at once), and copies no finite update.

If the model allows it, the first batch of a client does not take this loop: `take_first_step` marks
it, and the first steps of all clients of a pack are computed together (`models/first_step.py`,
`client_packing/row_groups.py`). `execution.first_step` = "separate" turns this off; read the loop
first.

Source: McMahan et al. 2017, Algorithm 1, ClientUpdate, https://arxiv.org/abs/1602.05629. The
proximal term: FedProx, Li et al. 2020, eq. 2, https://arxiv.org/abs/1812.06127.
"""

import collections
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.aggregators.fedmed.aggregator import LocalLoss
from tff_keyboard.aggregators.guards.update_guard import all_finite
from tff_keyboard.algorithms.composition import ClientWork, ModelFn
from tff_keyboard.algorithms.optimizers.local_sgd import LocalSgd
from tff_keyboard.data import batches as batches_lib
from tff_keyboard.data import elements
from tff_keyboard.execution import row_work
from tff_keyboard.models import first_step


class TouchedTableRows(NamedTuple):
    """Finds the rows of word tables that a batch touches."""

    rows: int  # rows of the tables, the vocabulary
    ids_of: Callable[[Any], Sequence[tf.Tensor]]  # batch -> int32 ids of its words, any shape

    def add(self, touched: tf.Tensor, batch: Any) -> tf.Tensor:
        """Returns `touched` with 1 also at the rows of the batch."""
        for ids in self.ids_of(batch):
            indices = tf.reshape(ids, [-1, 1])
            ones = tf.ones([tf.size(ids)])
            touched = tf.tensor_scatter_nd_update(touched, indices, ones)
        return touched


def _take_step(optimizer, state, variables, gradients):
    """Changes the variables, in place if the optimizer can, and returns the optimizer's state."""
    if isinstance(optimizer, LocalSgd):
        return optimizer.update(state, variables, gradients)
    state, updated = optimizer.next(state, variables, gradients)
    tf.nest.map_structure(lambda v, x: v.assign(x), variables, updated)
    return state


def build_client_training(
    model_fn: ModelFn,
    optimizer: tff.learning.optimizers.Optimizer,
    *,
    uniform_weights: bool = False,
    reports_loss: LocalLoss | None = None,
    touched_rows: TouchedTableRows | None = None,
    proximal_strength: float = 0.0,
    joined: bool = False,
) -> ClientWork:
    """Builds client work that trains the model on the client's batches, one step per batch.

    Args:
      model_fn: Builds the model. Its `forward_pass` reports `num_examples` (tokens or messages).
      optimizer: Local optimizer. Its state starts anew on every client in every round.
      uniform_weights: Whether every client has weight 1.
      reports_loss: If given, the weight is `OrderedDict(num_examples, loss)` instead of
        `num_examples`, all float32. `loss` is the mean of the losses of all batches of all epochs,
        weighted by the batch's `num_examples`; 0 without data. "during_training": the loss of a
        batch is computed before its step. "after_training": the trained model runs forwards over
        the batches once more. They are in memory already, like the model. Metrics do not count this
        pass.
      touched_rows: Rows of word tables that a batch touches. If given, the weight is
        `OrderedDict(num_examples, touched)`, float32. `touched` is 1 for every row that a batch
        touched, as `aggregation.row_correction` takes it.
      proximal_strength: mu >= 0. Each step adds mu times (weights minus server weights) to the
        gradient, before the optimizer clips it. 0 adds nothing.
      joined: Whether each client dataset has one element that contains all its batches, joined
        (`data/elements.py`), as our client stores deliver it. A batch is [sequences, time + 1], and
        it is split into inputs and targets here (`data.batches.split`).

    Returns:
      Client work with TFF's state (the optimizer's hyperparameters), metrics and update (server
      minus client). A client whose update is not finite sends zeros, weight 0, loss 0 and no
      metrics.

    Raises:
      ValueError: Both a loss and touched rows are requested, or `proximal_strength` is negative or
        not finite.
    """
    if not 0 <= proximal_strength < math.inf:
        raise ValueError(f"`proximal_strength` must be finite and >= 0, got {proximal_strength}.")
    if reports_loss and touched_rows:
        raise ValueError("A client's weight can carry its loss or its touched rows, not both.")
    with tf.Graph().as_default():  # keeps the model's variables out of the caller's graph
        model = model_fn()
        sum_metrics = tff.learning.metrics.sum_then_finalize(model.metric_finalizers())
    shares_first_step = joined and getattr(model, "shares_first_step", False)
    weights_type = tff.learning.models.weights_type_from_model(model)
    batch_spec = batches_lib.BATCH_SPEC if joined else model.input_spec
    data_spec = elements.joined_spec(batch_spec) if joined else batch_spec
    data_type = tff.SequenceType(tff.types.tensorflow_to_type(data_spec))

    def model_input(batch):
        return batches_lib.split(batch) if joined else batch

    initial_hparams = optimizer.get_hparams(optimizer.initialize(tf.TensorSpec([], tf.float32)))

    @tff.federated_computation
    def initialize():
        return tff.federated_value(initial_hparams, tff.SERVER)

    hparams_type = initialize.type_signature.result.member

    @tff.tensorflow.computation(hparams_type, weights_type, data_type)
    def train(hparams, server_weights, dataset):
        """Returns one client's `ClientResult`, and its training metrics.

        `hparams` are the optimizer's. `dataset` has the client's batches.
        """
        model = model_fn()
        weights = tff.learning.models.ModelWeights.from_model(model)
        trainable = tuple(tf.nest.flatten(weights.trainable))
        batches = elements.read(dataset, batch_spec)
        first_batch, factors = None, None
        if shares_first_step:
            first_batch = elements.first(batches, batch_spec)
            factors = row_work.of_rows(
                lambda rows: model.first_step_factors(list(server_weights.trainable), rows),
                first_batch,
            )

        def add_proximal_term(gradients):
            """Returns gradients of loss + proximal_strength / 2 ||trainable - server weights||^2.

            In the first step of a client, the term is zero.
            """
            if not proximal_strength:
                return gradients
            terms = [
                proximal_strength * (variable - weight)
                for variable, weight in zip(
                    trainable, tf.nest.flatten(server_weights.trainable), strict=True
                )
            ]
            return [
                term if gradient is None else tf.convert_to_tensor(gradient) + term
                for gradient, term in zip(gradients, terms, strict=True)
            ]

        def step(state, element):
            """Trains `weights` on one batch. Returns the state after it.

            The state is (optimizer state, examples, sum of the losses, touched rows [vocabulary]).
            """
            optimizer_state, num_examples, total_loss, touched = state
            batch = model_input(element)
            with tf.GradientTape() as tape:
                output = model.forward_pass(batch, training=True)
            gradients = add_proximal_term(tape.gradient(output.loss, trainable))
            optimizer_state = _take_step(optimizer, optimizer_state, trainable, tuple(gradients))
            total_loss, num_examples = add_loss((total_loss, num_examples), output)
            if touched_rows:
                touched = touched_rows.add(touched, batch)
            return optimizer_state, num_examples, total_loss, touched

        def take_first_step(state):
            """Returns the state after the first batch, and the weights minus the new weights.

            The third value is whether the latter are known to be finite.
            """
            optimizer_state, num_examples, total_loss, touched = state
            rows = tf.shape(first_batch, tf.int64)[0]
            gradients, is_bounded, output = model.first_step(factors, rows)
            old = tuple(tf.nest.flatten(server_weights.trainable))
            if isinstance(optimizer, LocalSgd):
                steps = optimizer.steps(optimizer_state, tuple(gradients))
                is_finite = is_bounded & optimizer.is_finite_step_of(
                    optimizer_state, first_step.LARGEST_GRADIENT
                )
            else:
                is_finite = tf.constant(False)  # unknown
                optimizer_state, new = optimizer.next(optimizer_state, old, tuple(gradients))
                steps = tf.nest.map_structure(tf.subtract, old, new)
            total_loss, num_examples = add_loss((total_loss, num_examples), output)
            if touched_rows:
                touched = touched_rows.add(touched, model_input(first_batch))
            return (optimizer_state, num_examples, total_loss, touched), steps, is_finite

        def train_from_first_step(state):
            """Returns the state after all batches, and the update (initial minus trained).

            The third value is whether the update is known to be finite.
            """
            state, steps, is_finite = take_first_step(state)

            def train_on_later_batches():
                """Trains on the batches after the first. Returns what the outer function does."""
                old = tf.nest.flatten(server_weights)
                new = [w - s for w, s in zip(old, steps, strict=True)]
                for variable, value in zip(tf.nest.flatten(weights), new, strict=True):
                    variable.assign(value)
                one = tf.constant(1, tf.int64)
                end = elements.fold(step, state, batches, batch_spec, start=one)
                update = tuple(w - v for w, v in zip(old, trainable, strict=True))
                return end, update, tf.constant(False)

            if reports_loss == "after_training":  # it needs the trained model
                return train_on_later_batches()
            has_later_batches = tf.shape(batches["shapes"])[0] > 1
            after_first = state, steps, is_finite
            return tf.cond(has_later_batches, train_on_later_batches, lambda: after_first)

        def train_separately(state):
            """Trains on all batches of the client alone. Returns as `train_from_first_step`."""
            tf.nest.map_structure(lambda v, x: v.assign(x), weights, server_weights)
            end = elements.fold(step, state, batches, batch_spec)
            update = tf.nest.map_structure(tf.subtract, server_weights.trainable, weights.trainable)
            return end, tuple(tf.nest.flatten(update)), tf.constant(False)

        def add_batch(sums, element):
            return add_loss(sums, model.forward_pass(model_input(element), training=False))

        def add_loss(sums, output):
            total_loss, num_examples = sums
            count = tf.cast(output.num_examples, tf.int64)
            loss = tf.cast(output.loss, tf.float64) * tf.cast(count, tf.float64)
            return total_loss + loss, num_examples + count

        def mean_loss(total_loss, num_examples):
            mean = tf.math.divide_no_nan(total_loss, tf.cast(num_examples, tf.float64))
            return tf.cast(mean, tf.float32)

        def forget_metrics():
            model.reset_metrics()
            return tf.no_op()

        @tf.function(autograph=False)  # autograph's conversions take most of a second
        def train_on_all_batches():
            """Returns the update, its weight and the metrics; zeros if the update is not finite."""
            specs = tf.nest.map_structure(lambda v: tf.TensorSpec(v.shape, v.dtype), trainable)
            optimizer_state = optimizer.set_hparams(optimizer.initialize(specs), hparams)
            no_rows = tf.zeros([touched_rows.rows if touched_rows else 0])
            zeros = tf.constant(0, tf.int64), tf.constant(0.0, tf.float64)
            start = (optimizer_state, *zeros, no_rows)
            train_client = train_from_first_step if shares_first_step else train_separately
            end, update, is_known_finite = train_client(start)
            _, num_examples, total_loss, touched = end
            update = tf.nest.pack_sequence_as(server_weights.trainable, tf.nest.flatten(update))
            weight = tf.constant(1.0) if uniform_weights else tf.cast(num_examples, tf.float32)
            if reports_loss:
                weight = collections.OrderedDict(
                    num_examples=weight, loss=mean_loss(total_loss, num_examples)
                )
            if touched_rows:
                weight = collections.OrderedDict(num_examples=weight, touched=touched)
            sent = (update, weight)
            is_finite = tf.cond(
                is_known_finite,
                lambda: tf.constant(True),
                lambda: all_finite(tf.nest.flatten(update)),
            )
            # Unlike `tf.where`, a condition does not copy a finite update.
            update, weight = tf.cond(
                is_finite, lambda: sent, lambda: tf.nest.map_structure(tf.zeros_like, sent)
            )
            tf.cond(is_finite, tf.no_op, forget_metrics)
            metrics = model.report_local_unfinalized_metrics()  # before the next pass counts, too
            if reports_loss == "after_training":
                nothing = (tf.constant(0.0, tf.float64), tf.constant(0, tf.int64))
                loss = mean_loss(*elements.fold(add_batch, nothing, batches, batch_spec))
                weight["loss"] = tf.where(is_finite, loss, 0.0)
            result = tff.learning.templates.ClientResult(update=update, update_weight=weight)
            return result, metrics

        return train_on_all_batches()

    get_hparams = tff.tensorflow.computation(lambda state: state, hparams_type)
    set_hparams = tff.tensorflow.computation(
        lambda state, hparams: hparams, hparams_type, hparams_type
    )

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
