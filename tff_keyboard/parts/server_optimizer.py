"""The base class of server optimizers in configs, and the options of optimizers.

Each module of `algorithms/optimizers/registry/` defines one server optimizer:

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class FedAvgServer(OptimizerOptions, ServerOptimizer):
        type: Literal["fedavg"] = "fedavg"

        def build(self) -> Any:
            import tensorflow_federated as tff

            return tff.learning.optimizers.build_sgdm(self.learning_rate)

`build` imports TensorFlow, so that reading a config does not import it. The process composes the
optimizer with TFF's `tff.learning.templates.build_apply_optimizer_finalizer`, which takes the
aggregated update as a gradient (`algorithms/composition.py`).
"""

import dataclasses
from typing import Any, ClassVar

from tff_keyboard.parts.registry import Registry
from tff_keyboard.parts.schedule import Constant, Schedule
from tff_keyboard.parts.tables import Table
from tff_keyboard.storage.checks import Fraction, Positive

SERVER_OPTIMIZERS = Registry("tff_keyboard.algorithms.optimizers.registry")


@dataclasses.dataclass(frozen=True, kw_only=True)
class OptimizerOptions(Table):
    """The keys of all optimizers.

    Attributes:
      learning_rate: Learning rate of the optimizer. In `[server]` it is a factor on the aggregated
        update, which FedAtt and FedMed call epsilon or step size; in `[central]` it is a factor on
        the gradient.
      schedule: How the step size changes from round to round.
    """

    learning_rate: Positive = 1.0
    schedule: Schedule = Constant()  # noqa: RUF009 (frozen)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdamOptions(OptimizerOptions):
    """The keys of Adam and Yogi.

    Attributes:
      beta_1: Decay factor of the first moment.
      beta_2: Decay factor of the second moment.
      epsilon: Added to the square root of the second moment, to avoid division by zero (tau in
        Reddi et al. 2021). Larger values make the step less adaptive.
    """

    beta_1: Fraction = 0.9
    beta_2: Fraction = 0.999
    epsilon: Positive = 1e-5


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServerOptimizer(Table, path="server"):
    """The options of a server optimizer. Derive from `OptimizerOptions`, too, and name it first."""

    REGISTRY: ClassVar[Registry] = SERVER_OPTIMIZERS

    type: str

    @property
    def learning_rate(self) -> float:
        """The full learning rate."""
        return 1.0

    @property
    def schedule(self) -> Schedule:
        """How the step size changes from round to round."""
        return Constant()

    def build(self) -> Any:
        """Builds the `tff.learning.optimizers.Optimizer`, at the full learning rate.

        Raises:
          ConfigError: The user's own part raises an error, or returns an object of another kind.
        """
        raise NotImplementedError
