"""FedMed as a learning process: scored client work, its aggregator, a server step.

`tff.learning.algorithms.build_weighted_fed_avg` fixes a client's weight to one number; FedMed needs
loss and divergences too, so the parts are composed here.
"""

from collections.abc import Callable, Sequence

import tensorflow_federated as tff

from tff_keyboard.algorithms.fedmed.scored_client_work import build_scored_client_work
from tff_keyboard.config.rule_config import FedMed
from tff_keyboard.learning.client_training import build_client_training
from tff_keyboard.learning.composition import ClientWork, compose_process


def build_fedmed_process(
    model_fn: Callable[[], tff.learning.models.VariableModel],
    *,
    client_optimizer: tff.learning.optimizers.Optimizer,
    server_optimizer: tff.learning.optimizers.Optimizer,
    aggregator: tff.aggregators.WeightedAggregationFactory,
    rule: FedMed,
    uniform_weights: bool = False,
    variable_names: Sequence[str] | None = None,
    wrap_client_work: Callable[[ClientWork], ClientWork] | None = None,
    joined: bool = False,
) -> tff.learning.templates.LearningProcess:
    """Federated averaging with FedMed's aggregation.

    Args:
      model_fn: Builds the model; what it reports as `num_examples` is n_k of the FedAvg branch.
      client_optimizer: Local optimizer.
      server_optimizer: SGD with learning rate 1 makes the FedAvg branch exactly FedAvg; eta is the
        aggregator's own.
      aggregator: From `build_aggregator` with that rule, or around `FedMedFactory`.
      rule: Says which L_k topK and mediation compare ("during_training": the mean over the batches
        a client trained on, each before its step; "after_training": of the trained model over the
        same batches, one more pass), and how divergences are taken.
      uniform_weights: Whether n_k is 1 for every client.
      variable_names: As given to the aggregator.
      wrap_client_work: Wraps the local training before it is scored (the attack harness does).
      joined: See `algorithms.build_fed_avg`.

    Raises:
      ValueError: A layer group does not fit the model.
    """
    training = build_client_training(
        model_fn,
        client_optimizer,
        uniform_weights=uniform_weights,
        reports_loss=rule.local_loss == "during_training",
        joined=joined,
    )
    if wrap_client_work is not None:
        training = wrap_client_work(training)
    work = build_scored_client_work(
        training,
        model_fn,
        divergence_normalisation=rule.divergence_normalisation,
        layer_groups=rule.layer_groups,
        variable_names=variable_names,
    )
    return compose_process(
        model_fn, client_work=work, server_optimizer=server_optimizer, aggregator=aggregator
    )
