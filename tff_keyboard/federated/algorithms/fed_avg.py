"""FedAvg: clients train on their own text, the server averages what they learned.

    client k:  w_k <- w, then w_k <- w_k - client_lr * gradient of each of its batches, E epochs
    server:    w <- w - server_optimizer(sum_k (n_k / n) (w - w_k))

The weighted mean may be another rule: with `fedatt.FedAttFactory` it is FedAtt, with
`robust_mean.RobustMeanFactory` a median. A rule whose clients send more than a delta and a number
has a builder of its own (`federated/algorithms/fedmed/process.py`). The finalizer rejects an
aggregate with NaN or infinity, leaving model and optimizer as they were
(`finalizer/update_non_finite` = 1).
"""

from collections.abc import Callable

import tensorflow_federated as tff

from tff_keyboard.federated.learning.client_training import TouchedRows, build_client_training
from tff_keyboard.federated.learning.composition import ClientWork, ModelFn, compose_process


def build_fed_avg(
    model_fn: ModelFn,
    *,
    client_optimizer: tff.learning.optimizers.Optimizer,
    server_optimizer: tff.learning.optimizers.Optimizer,
    aggregator: tff.aggregators.WeightedAggregationFactory,
    uniform_weights: bool,
    touched_rows: TouchedRows | None = None,
    wrap_client_work: Callable[[ClientWork], ClientWork] | None = None,
    joined: bool = False,
) -> tff.learning.templates.LearningProcess:
    """Federated averaging: local SGD, then a server step along the aggregated delta.

    Args:
      model_fn: Builds the model; its `num_examples` (tokens or messages) is a client's weight.
      client_optimizer: Local optimizer; its state starts anew on every client in every round.
      server_optimizer: Takes w_server - w_client, aggregated, as the gradient.
      aggregator: Aggregates deltas weighted by a float32 scalar, or by what `touched_rows` makes.
      uniform_weights: Whether every client weighs 1 instead.
      touched_rows: See `client_training.build_client_training`.
      wrap_client_work: Changes what clients do, e.g. `attackers.build_attacked_client_work`.
      joined: Whether clients hold their batches as `packs.elements.joined_dataset` makes them.

    Source: McMahan et al. 2017, Algorithm 1, https://arxiv.org/abs/1602.05629; server optimizer as
    in Reddi et al. 2021, Algorithm 1, https://arxiv.org/abs/2003.00295.
    """
    client_work = build_client_training(
        model_fn,
        client_optimizer,
        uniform_weights=uniform_weights,
        touched_rows=touched_rows,
        joined=joined,
    )
    if wrap_client_work is not None:
        client_work = wrap_client_work(client_work)
    return compose_process(
        model_fn, client_work=client_work, server_optimizer=server_optimizer, aggregator=aggregator
    )
