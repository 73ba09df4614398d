"""Client and server optimizers from their config sections."""

from collections.abc import Callable

import tensorflow_federated as tff

from tff_keyboard.config.learning_config import ClientConfig, ServerConfig
from tff_keyboard.learning.clipped_optimizer import ClippedOptimizer
from tff_keyboard.learning.nesterov import NesterovSGD


def build_client_optimizer(config: ClientConfig) -> tff.learning.optimizers.Optimizer:
    """SGD, with momentum that starts from zero on each client in each round."""
    sgd = tff.learning.optimizers.build_sgdm(config.learning_rate, config.momentum or None)
    if not config.gradient_clip_norm:
        return sgd
    return ClippedOptimizer(sgd, config.gradient_clip_norm)


def _server_sgd(config: ServerConfig) -> tff.learning.optimizers.Optimizer:
    if config.momentum and config.nesterov:
        return NesterovSGD(config.learning_rate, config.momentum)
    return tff.learning.optimizers.build_sgdm(config.learning_rate, config.momentum or None)


def _server_adam(config: ServerConfig) -> tff.learning.optimizers.Optimizer:
    return tff.learning.optimizers.build_adam(
        config.learning_rate, config.beta_1, config.beta_2, config.epsilon
    )


SERVER_OPTIMIZERS: dict[str, Callable[[ServerConfig], tff.learning.optimizers.Optimizer]] = {
    "sgd": _server_sgd,
    "adam": _server_adam,
}


def build_server_optimizer(config: ServerConfig) -> tff.learning.optimizers.Optimizer:
    """The optimizer named by `server.optimizer`."""
    return SERVER_OPTIMIZERS[config.optimizer](config)
