"""FedMed as a learning process: clients also report their loss and divergences to the server.

`tff.learning.algorithms.build_weighted_fed_avg` fixes a client's weight to one number; FedMed needs
loss and divergences too, so the parts are composed here. What is a layer is said once, to the
factory.
"""

from collections.abc import Callable

import tensorflow_federated as tff

from tff_keyboard.federated.aggregation.processes import Factory
from tff_keyboard.federated.algorithms.fedmed.aggregator import FedMedFactory
from tff_keyboard.federated.algorithms.fedmed.scored_client_work import build_scored_client_work
from tff_keyboard.federated.learning.client_training import build_client_training
from tff_keyboard.federated.learning.composition import ClientWork, ModelFn, compose_process


def build_fedmed(
    model_fn: ModelFn,
    factory: FedMedFactory,
    *,
    client_optimizer: tff.learning.optimizers.Optimizer,
    server_optimizer: tff.learning.optimizers.Optimizer,
    protect: Callable[[Factory], Factory] | None = None,
    uniform_weights: bool = False,
    wrap_client_work: Callable[[ClientWork], ClientWork] | None = None,
    joined: bool = False,
) -> tff.learning.templates.LearningProcess:
    """Federated averaging with FedMed's aggregation.

    Args:
      model_fn: Builds the model; what it reports as `num_examples` is n_k of the FedAvg branch.
      factory: Its rule says which L_k topK and mediation compare ("after_training": of the trained
        model over the batches it was trained on, one more pass; "during_training": the mean over
        these batches, each before its step), and how divergences are taken.
      client_optimizer: Local optimizer.
      server_optimizer: SGD with learning rate 1 makes the FedAvg branch exactly FedAvg.
      protect: Puts around the factory what deltas meet before it; None: nothing.
      uniform_weights: Whether n_k is 1 for every client.
      wrap_client_work: Wraps the local training before it is scored (the attack harness does).
      joined: See `fed_avg.build_fed_avg`.
    """
    # Wrapped work may change what was learnt: its loss is then looked at from outside.
    is_wrapped = wrap_client_work is not None
    looks_again = is_wrapped and factory.rule.local_loss == "after_training"
    training = build_client_training(
        model_fn,
        client_optimizer,
        uniform_weights=uniform_weights,
        reports_loss=None if looks_again else factory.rule.local_loss,
        joined=joined,
    )
    if wrap_client_work is not None:
        training = wrap_client_work(training)
    work = build_scored_client_work(training, model_fn, layers_of=factory.layers_of)
    return compose_process(
        model_fn,
        client_work=work,
        server_optimizer=server_optimizer,
        aggregator=factory if protect is None else protect(factory),
    )
