"""Optimizers of clients and of central training, and Adam of the server.

The other server optimizers are in `registry/`.

Adam and Yogi are TFF's. With t from 1, m and v from 0,

    m = beta_1 m + (1 - beta_1) g
    v = beta_2 v + (1 - beta_2) g^2                       Yogi: v - (1 - beta_2) g^2 sign(v - g^2)
    w = w - rate sqrt(1 - beta_2^t) / (1 - beta_1^t) * m / (sqrt(v) + epsilon)

so epsilon is outside the root and added to the *uncorrected* v: the "epsilon hat" of Kingma & Ba
2015 (end of section 2, https://arxiv.org/abs/1412.6980), whose Algorithm 1 adds it to the corrected
v. Reddi et al. 2021 (Algorithm 2) do not correct the bias, so their first steps differ at the same
rate. Yogi's v starts from 0, as in the experiments that gave the default values (TFF's own default
is 1e-6). Adagrad is this project's, because TFF's has epsilon inside the root.
"""

from typing import Protocol, TypeAlias

import tensorflow_federated as tff

from tff_keyboard.algorithms.optimizers.local_sgd import ClippedOptimizer, LocalSgd
from tff_keyboard.config.sections.central_config import CentralConfig, CentralSgd
from tff_keyboard.parts.server_optimizer import AdamOptions

Optimizer: TypeAlias = tff.learning.optimizers.Optimizer


class LocalSgdOptions(Protocol):
    """The keys of `[client]` that define its SGD."""

    @property
    def learning_rate(self) -> float:
        """The learning rate."""

    @property
    def momentum(self) -> float:
        """The momentum; 0 for none."""

    @property
    def gradient_clip_norm(self) -> float:
        """The bound on the norm of a gradient; 0 for none."""


def build_client_optimizer(config: LocalSgdOptions) -> Optimizer:
    """Returns SGD with clipped gradients, and with momentum that starts from zero."""
    if not config.momentum:
        return LocalSgd(config.learning_rate, config.gradient_clip_norm or None)
    sgd = tff.learning.optimizers.build_sgdm(config.learning_rate, config.momentum)
    return _clipped(sgd, config.gradient_clip_norm)


def build_central_optimizer(config: CentralConfig, client: LocalSgdOptions) -> Optimizer:
    """The optimizer named by `central.type`; gradients are clipped as on a client."""
    if isinstance(config, CentralSgd):
        return build_client_optimizer(client)
    return _clipped(build_adam(config), client.gradient_clip_norm)


def build_adam(options: AdamOptions) -> Optimizer:
    """Returns TFF's Adam; the module docstring has its equations."""
    return tff.learning.optimizers.build_adam(
        options.learning_rate, options.beta_1, options.beta_2, options.epsilon
    )


def _clipped(optimizer: Optimizer, clip_norm: float) -> Optimizer:
    return ClippedOptimizer(optimizer, clip_norm) if clip_norm else optimizer
