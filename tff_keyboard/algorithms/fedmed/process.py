"""FedMed as a learning process: clients also report their loss and divergences to the server.

In `tff.learning.algorithms.build_weighted_fed_avg` a client's weight is one number. FedMed also
needs loss and divergences, so the parts are composed here. The layers are defined once, in the
factory.
"""

from collections.abc import Callable

import tensorflow_federated as tff

from tff_keyboard.aggregators.fedmed.aggregator import FedMedFactory
from tff_keyboard.aggregators.processes import Factory
from tff_keyboard.algorithms.client_training import build_client_training
from tff_keyboard.algorithms.composition import ClientWork, ModelFn, compose_process
from tff_keyboard.algorithms.fedmed.scored_client_work import build_scored_client_work


def build_fedmed(
    model_fn: ModelFn,
    factory: FedMedFactory,
    *,
    client_optimizer: tff.learning.optimizers.Optimizer,
    server_optimizer: tff.learning.optimizers.Optimizer,
    aggregator: Factory | None = None,
    uniform_weights: bool = False,
    wrap_client_work: Callable[[ClientWork], ClientWork] | None = None,
    joined: bool = False,
) -> tff.learning.templates.LearningProcess:
    """Builds federated averaging with FedMed's aggregation.

        process = tk.algorithms.build_fedmed(
            tk.models.build_model_fn("cifg", vocabulary_size=10_000, seed=1),
            tk.aggregators.FedMed(top_fraction=0.5, max_clients=20),
            client_optimizer=tff.learning.optimizers.build_sgdm(0.5),
            server_optimizer=tff.learning.optimizers.build_sgdm(1.0),
        )

    Args:
      model_fn: Builds the model. Its `num_examples` is n_k of the FedAvg branch.
      factory: The FedMed aggregator. It defines the divergences between updates. Its `local_loss`
        says which loss L_k a client reports. FedMed uses L_k to select clients, and to decide
        whether a round uses the adaptive weights or those of FedAvg. "after_training" is the loss
        of the trained model, in one more pass over the training batches. "during_training" is the
        mean loss of these batches, each measured before the step on this batch.
      client_optimizer: Local optimizer.
      server_optimizer: With SGD and learning rate 1, the FedAvg branch is exactly FedAvg.
      aggregator: The factory inside aggregators that run before it, such as a guard or clipping.
        None means the factory alone.
      uniform_weights: Whether n_k is 1 for every client.
      wrap_client_work: Wraps the local training before the loss L_k is measured (as attack
        simulations do).
      joined: See `fed_avg.build_fed_avg`.
    """
    if not isinstance(factory, FedMedFactory):
        raise TypeError(
            f"`factory` must be `tff_keyboard.aggregators.FedMed`, got {type(factory).__name__}."
        )
    # Wrapped work may change the update, so its loss is computed after the wrapper.
    is_wrapped = wrap_client_work is not None
    looks_again = is_wrapped and factory.local_loss == "after_training"
    training = build_client_training(
        model_fn,
        client_optimizer,
        uniform_weights=uniform_weights,
        reports_loss=None if looks_again else factory.local_loss,
        joined=joined,
    )
    if wrap_client_work is not None:
        training = wrap_client_work(training)
    work = build_scored_client_work(training, model_fn, layers_of=factory.layers_of)
    return compose_process(
        model_fn,
        client_work=work,
        server_optimizer=server_optimizer,
        aggregator=aggregator or factory,
    )
