"""The base class of client algorithms in configs: their options and their properties.

Each module of `algorithms/registry/` defines one algorithm:

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class FedSgdClient(ClientAlgorithm):
        type: Literal["fedsgd"] = "fedsgd"

        def build(self, parts: ProcessParts) -> Any:
            ...

`build` imports TensorFlow, so that reading a config does not import it.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

from tff_keyboard.parts.aggregator import AggregatorRun
from tff_keyboard.parts.registry import Registry
from tff_keyboard.parts.tables import Table
from tff_keyboard.storage.checks import FromOne, FromZero
from tff_keyboard.storage.errors import ConfigError

CLIENT_ALGORITHMS = Registry("tff_keyboard.algorithms.registry")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProcessParts:
    """What a client algorithm is composed with.

    Attributes:
      model_fn: Builds the model that clients train.
      vocabulary_size: Rows of the word table.
      run: The values that the run gives to its aggregator.
      aggregator: The aggregator with its protection, a weighted factory.
      build_rule_process: Builds the process of an aggregator whose clients send more than an update
        and a weight; None for other aggregators.
      uniform_weights: Whether every client has weight 1.
      corrects_rows: Whether clients report which rows of the word table they touched.
      server_optimizer: The optimizer of `[server]`.
      wrap_client_work: Changes the work of clients, for simulations of attacks; None for no change.
      joined: Whether clients may have joined batches (`data/elements.py`).
    """

    model_fn: Callable[[], Any]
    vocabulary_size: int
    run: AggregatorRun
    aggregator: Any
    build_rule_process: Callable[..., Any] | None
    uniform_weights: bool
    corrects_rows: bool
    server_optimizer: Any
    wrap_client_work: Callable[[Any], Any] | None
    joined: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClientAlgorithm(Table, path="client"):
    """The options of a client algorithm.

    Class attributes are its properties, which other tables and a run ask for:

    - `privacy_problem`: why no mechanism gives it a guarantee, or "".
    - `wrap_problem`: why attackers cannot be simulated in it, or "".
    - `trains_locally`: whether clients take steps, so that the loss of the training matters.
    - `takes_rule_process`: whether it works with an aggregator whose clients send more than an
      update and a weight (FedMed).
    - `reports_touched_rows`: whether its clients can report which words they typed, for
      `aggregation.row_correction`.
    - `required_weighting`, `required_weighting_reason`: the only `aggregation.client_weighting`
      that it works with, and why; or "".
    - `models_up`: how many tensors of the size of the model a client sends.

    Attributes:
      batch_size: Number of messages in a training batch.
      max_examples: Maximum number of messages that a client trains on in a round. They are drawn
        again in every round, by seed. 0 uses all messages.
    """

    REGISTRY: ClassVar[Registry] = CLIENT_ALGORITHMS

    privacy_problem: ClassVar[str] = ""
    wrap_problem: ClassVar[str] = ""
    trains_locally: ClassVar[bool] = True
    takes_rule_process: ClassVar[bool] = False
    reports_touched_rows: ClassVar[bool] = False
    required_weighting: ClassVar[str] = ""
    required_weighting_reason: ClassVar[str] = ""
    models_up: ClassVar[int] = 1
    type: str
    batch_size: FromOne = 16
    max_examples: FromZero = 256

    @property
    def epochs(self) -> int:
        """The number of times that the messages of a client are in its data of a round."""
        return 1

    @property
    def models_down(self) -> int:
        """How many tensors of the size of the model a client gets."""
        return 1

    def check_wrapping(self) -> None:
        """Checks that attackers can be simulated. Raises `ConfigError` with the reason if not."""
        if self.wrap_problem:
            raise ConfigError(
                f"`client.type` = {self.type!r} cannot be used with simulated attackers: "
                f"{self.wrap_problem} Use 'fedavg'."
            )

    def build(self, parts: ProcessParts) -> Any:
        """Builds the `tff.learning.templates.LearningProcess`.

        Raises:
          ConfigError: The user's own part raises an error, or returns an object of another kind.
        """
        raise NotImplementedError
