"""FedAvg and FedSGD as TFF learning processes.

Both take the same parts: a model, a server optimizer, a weighted aggregation factory. The finalizer
of every process rejects an aggregate with NaN or infinity, leaving model and optimizer as they were
(`finalizer/update_non_finite` = 1). FedMed, whose clients send scores too, is in
`fedmed_process.py`.
"""

from collections.abc import Callable

import tensorflow_federated as tff

from tff_keyboard.learning.composition import LOOP, ClientWork, ModelFn, compose_process


def build_fed_avg(
    model_fn: ModelFn,
    *,
    client_optimizer: tff.learning.optimizers.Optimizer,
    server_optimizer: tff.learning.optimizers.Optimizer,
    aggregator: tff.aggregators.WeightedAggregationFactory,
    uniform_weights: bool,
    wrap_client_work: Callable[[ClientWork], ClientWork] | None = None,
) -> tff.learning.templates.LearningProcess:
    """Federated averaging: local SGD, then a server step along the aggregated delta.

    Args:
      model_fn: Builds the model; what it reports as `num_examples` (tokens or messages) is a
        client's weight.
      client_optimizer: Local optimizer; its state starts anew on every client in every round.
      server_optimizer: Takes w_server - w_client, aggregated, as the gradient.
      aggregator: Of deltas weighted by a float32 scalar.
      uniform_weights: Whether every client weighs 1 instead.
      wrap_client_work: Changes what clients do, e.g. `attacks.build_attacked_client_work`.

    Source: McMahan et al. 2017, Algorithm 1, https://arxiv.org/abs/1602.05629; server optimizer as
    in Reddi et al. 2021, Algorithm 1, https://arxiv.org/abs/2003.00295.
    """
    weighting = tff.learning.ClientWeighting
    client_work = tff.learning.templates.build_model_delta_client_work(
        model_fn,
        client_optimizer,
        weighting.UNIFORM if uniform_weights else weighting.NUM_EXAMPLES,
        loop_implementation=LOOP,
    )
    if wrap_client_work is not None:
        client_work = wrap_client_work(client_work)
    return compose_process(
        model_fn, client_work=client_work, server_optimizer=server_optimizer, aggregator=aggregator
    )


def build_fed_sgd(
    model_fn: ModelFn,
    *,
    server_optimizer: tff.learning.optimizers.Optimizer,
    aggregator: tff.aggregators.WeightedAggregationFactory,
) -> tff.learning.templates.LearningProcess:
    """Federated SGD: each client sends the mean gradient over its data, the server takes one step.

    With a model whose `num_examples` are tokens and whose loss is the mean over a batch's tokens,
    the aggregate is the gradient of the mean loss over all tokens of the round.

    Source: McMahan et al. 2017, section 2, https://arxiv.org/abs/1602.05629.
    """
    return tff.learning.algorithms.build_fed_sgd(
        model_fn, server_optimizer, model_aggregator=aggregator, loop_implementation=LOOP
    )
