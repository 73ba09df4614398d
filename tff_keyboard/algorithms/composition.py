"""Composes a learning process of its parts: broadcast, client work, aggregation, server step.

The server step, with the function of TFF that does it:

    update d     the result of the aggregator: the aggregated (initial minus trained) weights
    finalizer    `tff.learning.templates.build_apply_optimizer_finalizer`
    optimizer    takes d as the gradient: w <- w - server_optimizer(d). `optimizers.py` builds it
                 from the table [server]: `tff.learning.optimizers.build_sgdm`, `build_adam`, ...
    rejection    if d has NaN or infinity, weights and optimizer remain as they are, and the metric
                 `finalizer/update_non_finite` is 1
    rate         part of the finalizer's state; `rounds/scheduled.py` sets it before each round
    noise        in d already: the aggregator adds the noise that `rounds/noised.py` put into its
                 state

`rounds/packed.py` runs this step as `form.update` of TFF's `MapReduceForm`.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

ModelFn: TypeAlias = Callable[[], tff.learning.models.VariableModel]
# `Dataset.reduce` instantiates the whole training step as a new function for each client (30 ms of
# CPU and thousands of allocations); an iterator's loop is a part of the graph that TFF keeps.
LOOP = tff.learning.LoopImplementation.DATASET_ITERATOR
ClientWork: TypeAlias = tff.learning.templates.ClientWorkProcess
WrapClientWork: TypeAlias = Callable[[ClientWork], ClientWork]


def compose_process(
    model_fn: ModelFn,
    *,
    client_work: ClientWork,
    server_optimizer: tff.learning.optimizers.Optimizer,
    aggregator: tff.aggregators.WeightedAggregationFactory,
) -> tff.learning.templates.LearningProcess:
    """Composes a learning process of any such parts.

    It equals `build_weighted_fed_avg` if the client work is TFF's own. A client's weight may be a
    structure (as in FedMed) if the aggregator accepts it. The finalizer rejects an aggregate that
    is not finite, and then leaves model and optimizer unchanged.
    """

    @tff.tensorflow.computation
    def initial_weights():
        return tff.learning.models.ModelWeights.from_model(model_fn())

    weights_type = initial_weights.type_signature.result
    client_result = client_work.next.type_signature.result.result.member
    return tff.learning.templates.compose_learning_process(
        initial_weights,
        tff.learning.templates.build_broadcast_process(weights_type),
        client_work,
        aggregator.create(client_result.update, client_result.update_weight),
        tff.learning.templates.build_apply_optimizer_finalizer(server_optimizer, weights_type),
    )


def with_initial_weights(
    process: tff.learning.templates.LearningProcess, trainable: Sequence[np.ndarray]
) -> tff.learning.templates.LearningProcess:
    """Returns `process` with an `initialize` that gives a state with these weights.

        model = tk.models.build_model("cifg", vocabulary_size=10_000, seed=1)
        weights = [variable.numpy() for variable in model.trainable_variables]
        process = tk.algorithms.with_initial_weights(process, weights)

    A model function runs on every client in every round. It computes initial weights each time,
    and the server's weights then replace them. With `with_initial_weights`, the model function can
    use weights that are cheap to compute, such as zeros.

    Args:
      process: Any learning process without non-trainable weights.
      trainable: float32 arrays in the order and shapes of the model's trainable variables.

    Raises:
      TypeError: Number, shapes or dtypes differ from the model's.
    """

    @tff.tensorflow.computation
    def weights():
        return tff.learning.models.ModelWeights([tf.constant(w) for w in trainable], [])

    @tff.federated_computation
    def initialize():
        state = process.initialize()
        return tff.federated_map(
            process.set_model_weights, (state, tff.federated_eval(weights, tff.SERVER))
        )

    return tff.learning.templates.LearningProcess(
        initialize,
        process.next,
        process.get_model_weights,
        process.set_model_weights,
        get_hparams_fn=process.get_hparams,
        set_hparams_fn=process.set_hparams,
    )
