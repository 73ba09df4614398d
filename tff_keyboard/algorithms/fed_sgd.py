"""FedSGD: each client sends one gradient over its data, and the server takes one step.

    client k:  g_k = gradient of the mean loss over its n_k tokens at w
    server:    w <- w - server_optimizer(sum_k (n_k / n) g_k)

If the model's `num_examples` are tokens and its loss is the mean over a batch's tokens, the
aggregate is the gradient of the mean loss over all tokens of the round. The finalizer is the same
as FedAvg's.

Source: McMahan et al. 2017, section 2, https://arxiv.org/abs/1602.05629.
"""

import tensorflow_federated as tff

from tff_keyboard.algorithms.composition import LOOP, ModelFn


def build_fed_sgd(
    model_fn: ModelFn,
    *,
    server_optimizer: tff.learning.optimizers.Optimizer,
    aggregator: tff.aggregators.WeightedAggregationFactory,
) -> tff.learning.templates.LearningProcess:
    """Builds federated SGD: one server step along the aggregated gradients of a round.

        process = tk.algorithms.build_fed_sgd(
            tk.models.build_model_fn("cifg", vocabulary_size=10_000, seed=1),
            server_optimizer=tff.learning.optimizers.build_sgdm(1.0),
            aggregator=tff.aggregators.MeanFactory(),
        )

    Args:
      model_fn: Builds the model.
      server_optimizer: Uses the aggregated gradient.
      aggregator: Aggregates gradients weighted by a float32 scalar, the model's `num_examples`.
    """
    return tff.learning.algorithms.build_fed_sgd(
        model_fn, server_optimizer, model_aggregator=aggregator, loop_implementation=LOOP
    )
