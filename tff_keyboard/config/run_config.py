"""The complete configuration of a run, and the rules between its tables."""

import dataclasses

from tff_keyboard.config.sections.aggregation_config import (
    AggregationConfig,
    AutoProtection,
    FedSubAvgConfig,
)
from tff_keyboard.config.sections.averaging_config import Averaging, NoAverage
from tff_keyboard.config.sections.central_config import CentralConfig, CentralSgd
from tff_keyboard.config.sections.data_config import DataConfig
from tff_keyboard.config.sections.devices_config import DevicesConfig
from tff_keyboard.config.sections.execution_config import ExecutionConfig
from tff_keyboard.config.sections.fine_tuning_config import (
    FineTuningConfig,
    LearningWithoutForgetting,
    TransferConfig,
)
from tff_keyboard.config.sections.train_config import EvaluationConfig, TrainConfig
from tff_keyboard.parts.client_algorithm import CLIENT_ALGORITHMS, ClientAlgorithm
from tff_keyboard.parts.model import MODELS, ModelOptions
from tff_keyboard.parts.schedule import Constant
from tff_keyboard.parts.server_optimizer import SERVER_OPTIMIZERS, ServerOptimizer


def _cifg() -> ModelOptions:
    return MODELS["cifg"]()


def _fed_avg() -> ClientAlgorithm:
    return CLIENT_ALGORITHMS["fedavg"]()


def _fed_avg_m() -> ServerOptimizer:
    return SERVER_OPTIMIZERS["fedavgm"]()


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunConfig:
    """The complete configuration of a run.

    Attributes:
      data: The text, and its conversion to a client store.
      model: The next-word model.
      client: The work of one client in a round.
      server: How the server applies the aggregated update.
      averaging: Whether the model of a run is an average of the models of many rounds.
      central: The optimizer of `train-server`, which uses no other key of [server].
      aggregation: How client updates are combined to one server update.
      fine_tuning: How forgetting of a general model is prevented; off by default.
      train: Rounds, cohorts, checkpoints, stopping.
      evaluation: Federated evaluation during and after training.
      devices: Requirements of `serve-rounds` for devices; not used elsewhere.
      execution: Machines and processes that compute a run. They change results only through the
        order of sums.
    """

    data: DataConfig = dataclasses.field(default_factory=DataConfig)
    model: ModelOptions = dataclasses.field(default_factory=_cifg)
    client: ClientAlgorithm = dataclasses.field(default_factory=_fed_avg)
    server: ServerOptimizer = dataclasses.field(default_factory=_fed_avg_m)
    averaging: Averaging = dataclasses.field(default_factory=NoAverage)
    central: CentralConfig = dataclasses.field(default_factory=CentralSgd)
    aggregation: AggregationConfig = dataclasses.field(default_factory=AggregationConfig)
    fine_tuning: FineTuningConfig = dataclasses.field(default_factory=FineTuningConfig)
    train: TrainConfig = dataclasses.field(default_factory=TrainConfig)
    evaluation: EvaluationConfig = dataclasses.field(default_factory=EvaluationConfig)
    devices: DevicesConfig = dataclasses.field(default_factory=DevicesConfig)
    execution: ExecutionConfig = dataclasses.field(default_factory=ExecutionConfig)

    def __post_init__(self) -> None:
        self._check_client()
        if self.train.client_sampling == "proportional":
            self._check_sampling()
        if isinstance(self.aggregation.row_correction, FedSubAvgConfig):
            self._check_row_correction()
        if isinstance(self.fine_tuning.server, TransferConfig):
            self._check_transfer()

    def _check_client(self) -> None:
        client, aggregation = self.client, self.aggregation
        name = f"`client.type` = {client.type!r}"
        required = client.required_weighting
        if required and aggregation.client_weighting != required:
            raise ValueError(
                f"`aggregation.client_weighting` = {aggregation.client_weighting!r} with {name}: "
                f"{client.required_weighting_reason} Set `aggregation.client_weighting` = "
                f"{required!r}."
            )
        if aggregation.rule.learning_process and not client.takes_rule_process:
            raise ValueError(
                f"`aggregation.rule.type` = {aggregation.rule.type!r} requires local training "
                f"losses, which clients with {name} do not send. Use 'fedavg'."
            )
        is_lwf = isinstance(self.fine_tuning.method, LearningWithoutForgetting)
        if is_lwf and not client.trains_locally:
            raise ValueError(
                f"`fine_tuning.method.type` = 'lwf' changes local training, which {name} does "
                "not have. Use 'fedavg'."
            )
        if aggregation.is_private and client.privacy_problem:
            raise ValueError(
                f"`aggregation.privacy.type` = {aggregation.privacy.type!r} cannot be used with "
                f"{name}: {client.privacy_problem}"
            )

    def _check_sampling(self) -> None:
        if self.aggregation.is_private:
            raise ValueError(
                "`train.client_sampling` = 'proportional' with `aggregation.privacy.type` = "
                f"{self.aggregation.privacy.type!r}: the accounting assumes that all clients "
                "are sampled with the same probability. Set `train.client_sampling` = 'uniform'."
            )
        if not self.client.max_examples:
            raise ValueError(
                "`train.client_sampling` = 'proportional' requires `client.max_examples` > 0, the "
                f"number of messages per unit, got {self.client.max_examples}."
            )
        rule = self.aggregation.rule
        if not self.train.max_sampling_ratio and rule.is_robust:
            raise ValueError(
                f"`train.max_sampling_ratio` = 0 with `aggregation.rule.type` = {rule.type!r}: a "
                "client that claims enough text takes part in every round, and no aggregator "
                "resists a majority of the cohort. Set `train.max_sampling_ratio` = "
                f"{TrainConfig.max_sampling_ratio:g}, or `train.client_sampling` = 'uniform'."
            )

    def _check_row_correction(self) -> None:
        rule = self.aggregation.rule
        for name, value in (
            ("client.type", "" if self.client.reports_touched_rows else self.client.type),
            ("aggregation.rule.type", rule.type if rule.learning_process else ""),
        ):
            if value:
                raise ValueError(
                    f"`aggregation.row_correction.type` = 'fedsubavg' with `{name}` = {value!r}: "
                    "its clients do not send which words they typed. Set the correction to 'none'."
                )

    def _check_transfer(self) -> None:
        aggregation, protection = self.aggregation, self.aggregation.protection
        for name, value, allowed in (
            ("client.type", self.client.type, "fedavg"),
            ("aggregation.rule.type", aggregation.rule.type, "mean"),
            ("aggregation.privacy.type", aggregation.privacy.type, "none"),
            ("aggregation.compression.type", aggregation.compression.type, "none"),
            ("aggregation.row_correction.type", aggregation.row_correction.type, "none"),
            ("aggregation.client_noise.type", aggregation.client_noise.type, "none"),
            (
                "aggregation.protection.type",
                protection.type,
                "auto" if isinstance(protection, AutoProtection) else "off",
            ),
            ("aggregation.protection.zeroing", getattr(protection, "zeroing", False), False),
            ("execution.engine", self.execution.engine, "local"),
        ):
            if value != allowed:
                raise ValueError(
                    f"`{name}` = {value!r} with `fine_tuning.server.type` = 'transfer': the server "
                    "learns from the model of each client instead of aggregating updates. Set it "
                    f"to {allowed!r}."
                )
        if getattr(self.client, "schedule", Constant()) != Constant():
            raise ValueError(
                "`client.schedule` has no effect with `fine_tuning.server.type` = 'transfer': the "
                "clients have a constant learning rate. Remove `client.schedule`."
            )
        if self.server != _fed_avg_m():
            raise ValueError(
                "`server` has no effect with `fine_tuning.server.type` = 'transfer': "
                "[fine_tuning.server] has the options of the server's training. Remove [server]."
            )
