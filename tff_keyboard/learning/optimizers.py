"""Client and server optimizers from their config sections."""

import tensorflow_federated as tff

from tff_keyboard.config.learning_config import (
    FedAdam,
    FedAvgClient,
    FedAvgM,
    FedAvgServer,
    ServerConfig,
)
from tff_keyboard.learning.clipped_optimizer import ClippedOptimizer
from tff_keyboard.learning.nesterov import NesterovSGD


def build_client_optimizer(config: FedAvgClient) -> tff.learning.optimizers.Optimizer:
    """SGD, with momentum that starts from zero on each client in each round."""
    sgd = tff.learning.optimizers.build_sgdm(config.learning_rate, config.momentum or None)
    if not config.gradient_clip_norm:
        return sgd
    return ClippedOptimizer(sgd, config.gradient_clip_norm)


def build_server_optimizer(config: ServerConfig) -> tff.learning.optimizers.Optimizer:
    """The optimizer named by `server.optimizer`."""
    library = tff.learning.optimizers
    match config:
        case FedAvgServer():
            return library.build_sgdm(config.learning_rate)
        case FedAvgM(nesterov=True) if config.momentum:
            return NesterovSGD(config.learning_rate, config.momentum)
        case FedAvgM():
            return library.build_sgdm(config.learning_rate, config.momentum or None)
        case FedAdam():
            return library.build_adam(
                config.learning_rate, config.beta_1, config.beta_2, config.epsilon
            )
