"""FedAvg: clients train on their own text, and the server averages their updates.

    client k:  w_k <- w, then w_k <- w_k - client_lr * gradient of each of its batches, E epochs
    server:    w <- w - server_optimizer(sum_k (n_k / n) (w - w_k))

With `proximal_strength` it is FedProx: each gradient gets the term proximal_strength (w_k - w).

Another aggregator can replace the weighted mean: with `tk.aggregators.FedAtt` the algorithm is
FedAtt, with `tk.aggregators.Median` the aggregate is a median. If clients send more than an
update and a number, the algorithm has its own builder (`fedmed/process.py`). The finalizer rejects
an aggregate with NaN or infinity, and then leaves model and optimizer unchanged
(`finalizer/update_non_finite` = 1).
"""

from collections.abc import Callable

import tensorflow_federated as tff

from tff_keyboard.algorithms.client_training import TouchedTableRows, build_client_training
from tff_keyboard.algorithms.composition import ClientWork, ModelFn, compose_process


def build_fed_avg(
    model_fn: ModelFn,
    *,
    client_optimizer: tff.learning.optimizers.Optimizer,
    server_optimizer: tff.learning.optimizers.Optimizer,
    aggregator: tff.aggregators.WeightedAggregationFactory,
    uniform_weights: bool,
    touched_rows: TouchedTableRows | None = None,
    proximal_strength: float = 0.0,
    wrap_client_work: Callable[[ClientWork], ClientWork] | None = None,
    joined: bool = False,
) -> tff.learning.templates.LearningProcess:
    """Builds federated averaging: local SGD, then a server step along the aggregated update.

        process = tk.algorithms.build_fed_avg(
            tk.models.build_model_fn("cifg", vocabulary_size=10_000, seed=1),
            client_optimizer=tff.learning.optimizers.build_sgdm(0.5),
            server_optimizer=tff.learning.optimizers.build_sgdm(1.0),
            aggregator=tk.aggregators.FedAtt(2),
            uniform_weights=False,
        )

    Source: McMahan et al. 2017, Algorithm 1, https://arxiv.org/abs/1602.05629; server optimizer as
    in Reddi et al. 2021, Algorithm 1, https://arxiv.org/abs/2003.00295; proximal term of Li et al.
    2020, eq. 2, https://arxiv.org/abs/1812.06127.

    Args:
      model_fn: Builds the model; its `num_examples` (tokens or messages) is a client's weight.
      client_optimizer: Local optimizer. Its state starts anew on every client in every round.
      server_optimizer: Uses the aggregated w_server - w_client as the gradient.
      aggregator: Aggregates updates weighted by a float32 scalar; with `touched_rows`, by a
        structure of the scalar `num_examples` and the vector `touched`.
      uniform_weights: Whether every client has weight 1 instead of `num_examples`.
      touched_rows: Says which rows of the word tables a batch touches, for an aggregator that
        corrects the rows of rare words. None means that clients do not report it.
      proximal_strength: mu >= 0 of FedProx, which holds clients near the server's model.
      wrap_client_work: Changes the work of clients, e.g. `attackers.build_attacked_client_work`.
      joined: Whether each client dataset has one element that contains all its batches, as our
        client stores deliver it (`data/elements.py`).
    """
    client_work = build_client_training(
        model_fn,
        client_optimizer,
        uniform_weights=uniform_weights,
        touched_rows=touched_rows,
        proximal_strength=proximal_strength,
        joined=joined,
    )
    if wrap_client_work is not None:
        client_work = wrap_client_work(client_work)
    return compose_process(
        model_fn, client_work=client_work, server_optimizer=server_optimizer, aggregator=aggregator
    )
