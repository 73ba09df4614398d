"""Federated algorithms as TFF learning processes, chosen by name.

Both take the same parts: a model, a server optimizer, an aggregation factory. The finalizer of
every process rejects an aggregate with NaN or infinity, leaving model and optimizer as they were
(`finalizer/update_non_finite` = 1).
"""

from collections.abc import Callable

import tensorflow_federated as tff

ModelFn = Callable[[], tff.learning.models.VariableModel]
Aggregator = (
    tff.aggregators.WeightedAggregationFactory | tff.aggregators.UnweightedAggregationFactory
)


def build_fed_avg(
    model_fn: ModelFn,
    *,
    client_optimizer: tff.learning.optimizers.Optimizer,
    server_optimizer: tff.learning.optimizers.Optimizer,
    aggregator: Aggregator,
    uniform_weights: bool,
) -> tff.learning.templates.LearningProcess:
    """Federated averaging: local SGD, then a server step along the aggregated delta.

    Args:
      model_fn: Builds the model; what it reports as `num_examples` (tokens or messages) is a
        client's weight.
      client_optimizer: Local optimizer; its state starts anew on every client in every round.
      server_optimizer: Takes w_server - w_client, aggregated, as the gradient.
      aggregator: A weighted factory, or an unweighted one (differential privacy), for which
        client weights are ignored.
      uniform_weights: Whether every client weighs 1 instead.

    Source: McMahan et al. 2017, Algorithm 1, https://arxiv.org/abs/1602.05629; server optimizer as
    in Reddi et al. 2021, Algorithm 1, https://arxiv.org/abs/2003.00295.
    """
    if isinstance(aggregator, tff.aggregators.UnweightedAggregationFactory):
        return tff.learning.algorithms.build_unweighted_fed_avg(
            model_fn, client_optimizer, server_optimizer, model_aggregator=aggregator
        )
    weighting = tff.learning.ClientWeighting
    return tff.learning.algorithms.build_weighted_fed_avg(
        model_fn,
        client_optimizer,
        server_optimizer,
        client_weighting=weighting.UNIFORM if uniform_weights else weighting.NUM_EXAMPLES,
        model_aggregator=aggregator,
    )


def build_fed_sgd(
    model_fn: ModelFn,
    *,
    server_optimizer: tff.learning.optimizers.Optimizer,
    aggregator: Aggregator,
) -> tff.learning.templates.LearningProcess:
    """Federated SGD: each client sends the mean gradient over its data, the server takes one step.

    With a model whose `num_examples` are tokens and whose loss is the mean over a batch's tokens,
    the aggregate is the gradient of the mean loss over all tokens of the round.

    Source: McMahan et al. 2017, section 2, https://arxiv.org/abs/1602.05629.
    """
    if isinstance(aggregator, tff.aggregators.UnweightedAggregationFactory):
        aggregator = tff.aggregators.as_weighted_aggregator(aggregator)
    return tff.learning.algorithms.build_fed_sgd(
        model_fn, server_optimizer, model_aggregator=aggregator
    )
