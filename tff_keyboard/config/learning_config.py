"""What a client does in a round and what the server does with the result."""

import dataclasses

from tff_keyboard.config.checks import (
    require_at_least,
    require_fraction,
    require_one_of,
    require_positive,
)

SERVER_OPTIMIZERS = ("sgd", "adam")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClientConfig:
    """Local training on one client in one round.

    Attributes:
      learning_rate: SGD learning rate; the loss is the mean over a batch's tokens, in nats.
      momentum: SGD momentum in [0, 1); reset every round.
      gradient_clip_norm: Bound on the L2 norm of a batch's gradient; 0 means none. Without one the
        CIFG diverges on small cohorts with server momentum 0.9.
      epochs: Passes over the client's chosen messages.
      batch_size: Messages in a batch.
      max_examples: Messages a client trains on in a round at most, drawn anew every round by
        seed; 0 means all.
      bucket_by_length: Whether messages of similar length share a batch. Which messages are
        trained on does not change, their order and batches do. Padding costs nothing in our
        models; this is for those that compute it.
    """

    learning_rate: float = 0.5
    momentum: float = 0.0
    gradient_clip_norm: float = 1.0
    epochs: int = 1
    batch_size: int = 16
    max_examples: int = 256
    bucket_by_length: bool = False

    def __post_init__(self):
        require_positive("client.learning_rate", self.learning_rate)
        require_fraction("client.momentum", self.momentum)
        require_at_least("client.gradient_clip_norm", self.gradient_clip_norm, 0)
        require_at_least("client.epochs", self.epochs, 1)
        require_at_least("client.batch_size", self.batch_size, 1)
        require_at_least("client.max_examples", self.max_examples, 0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServerConfig:
    """The server optimizer; the aggregated delta plays the gradient.

    Attributes:
      optimizer: "sgd" (with optional Nesterov momentum) or "adam".
      learning_rate: Server learning rate; FedAtt's and FedMed's step size too.
      momentum: Momentum of "sgd" in [0, 1).
      nesterov: Whether momentum is Nesterov's, as in Hard et al. 2018 (lr 1.0, momentum 0.9).
      beta_1: First-moment decay of "adam".
      beta_2: Second-moment decay of "adam".
      epsilon: Added to the root of the second moment of "adam" (Reddi et al. 2021 call it tau).
    """

    optimizer: str = "sgd"
    learning_rate: float = 1.0
    momentum: float = 0.9
    nesterov: bool = True
    beta_1: float = 0.9
    beta_2: float = 0.99
    epsilon: float = 1e-3

    def __post_init__(self):
        require_one_of("server.optimizer", self.optimizer, SERVER_OPTIMIZERS)
        require_positive("server.learning_rate", self.learning_rate)
        require_fraction("server.momentum", self.momentum)
        require_fraction("server.beta_1", self.beta_1)
        require_fraction("server.beta_2", self.beta_2)
        require_positive("server.epsilon", self.epsilon)
