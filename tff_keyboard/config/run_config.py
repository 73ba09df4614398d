"""Everything that defines a run, and the rules between its tables."""

import dataclasses

from tff_keyboard.config.sections.aggregation_config import (
    AggregationConfig,
    AutoProtection,
    TouchedRows,
)
from tff_keyboard.config.sections.averaging_config import Averaging, NoAverage
from tff_keyboard.config.sections.data_config import DataConfig
from tff_keyboard.config.sections.devices_config import DevicesConfig
from tff_keyboard.config.sections.execution_config import ExecutionConfig
from tff_keyboard.config.sections.fine_tuning_config import (
    FineTuningConfig,
    LearningWithoutForgetting,
    Transfer,
)
from tff_keyboard.config.sections.learning_config import (
    CentralConfig,
    CentralSgd,
    ClientConfig,
    FedAvgClient,
    FedAvgM,
    FedSgdClient,
    ServerConfig,
)
from tff_keyboard.config.sections.model_config import Cifg, ModelConfig
from tff_keyboard.config.sections.rule_config import ORDER_STATISTICS, FedMed
from tff_keyboard.config.sections.schedule_config import Constant
from tff_keyboard.config.sections.train_config import EvaluationConfig, GrowingCohort, TrainConfig


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that defines a run.

    Attributes:
      data: Source of the text, and how it becomes a client store.
      model: The next-word model.
      client: What one client does in a round.
      server: What the server does with the aggregated delta.
      averaging: Whether the model of a run is an average of those of many rounds.
      central: The optimizer of `train-server`, which takes nothing else of [server].
      aggregation: How client deltas become one server delta.
      fine_tuning: How a general model is kept from being forgotten; by default, not at all.
      train: Rounds, cohorts, checkpoints, stopping.
      evaluation: Federated evaluation during and after training.
      devices: What `serve-rounds` asks of devices; nothing else takes it.
      execution: Machines and processes that compute a run; they change results through the order of
        sums alone.
    """

    data: DataConfig = dataclasses.field(default_factory=DataConfig)
    model: ModelConfig = dataclasses.field(default_factory=Cifg)
    client: ClientConfig = dataclasses.field(default_factory=FedAvgClient)
    server: ServerConfig = dataclasses.field(default_factory=FedAvgM)
    averaging: Averaging = dataclasses.field(default_factory=NoAverage)
    central: CentralConfig = dataclasses.field(default_factory=CentralSgd)
    aggregation: AggregationConfig = dataclasses.field(default_factory=AggregationConfig)
    fine_tuning: FineTuningConfig = dataclasses.field(default_factory=FineTuningConfig)
    train: TrainConfig = dataclasses.field(default_factory=TrainConfig)
    evaluation: EvaluationConfig = dataclasses.field(default_factory=EvaluationConfig)
    devices: DevicesConfig = dataclasses.field(default_factory=DevicesConfig)
    execution: ExecutionConfig = dataclasses.field(default_factory=ExecutionConfig)

    def __post_init__(self) -> None:
        if isinstance(self.client, FedSgdClient):
            self._check_fed_sgd()
        if self.aggregation.is_private and isinstance(self.train.cohort, GrowingCohort):
            raise ValueError(
                "`train.cohort.kind` = 'growing' with `aggregation.privacy.mechanism` = "
                f"{self.aggregation.privacy.mechanism!r}: the mean is divided by one number of "
                "clients, and the accounting is of one. Set it to 'steady'."
            )
        if self.train.check_in == "by_text":
            self._check_check_in()
        if isinstance(self.aggregation.row_correction, TouchedRows):
            self._check_row_correction()
        if isinstance(self.fine_tuning.server, Transfer):
            self._check_transfer()

    def _check_fed_sgd(self) -> None:
        aggregation = self.aggregation
        if aggregation.client_weighting != "tokens":
            raise ValueError(
                f"`aggregation.client_weighting` = {aggregation.client_weighting!r} with "
                "`client.algorithm` = 'fedsgd': the federated gradient is a token mean. "
                "Set it to 'tokens'."
            )
        if isinstance(aggregation.rule, FedMed):
            raise ValueError(
                "`aggregation.rule.name` = 'fedmed' needs local training losses, which "
                "`client.algorithm` = 'fedsgd' does not have. Use 'fedavg'."
            )
        if isinstance(self.fine_tuning.method, LearningWithoutForgetting):
            raise ValueError(
                "`fine_tuning.method.name` = 'lwf' changes local training, which "
                "`client.algorithm` = 'fedsgd' does not have. Use 'fedavg'."
            )

    def _check_check_in(self) -> None:
        if self.aggregation.is_private:
            raise ValueError(
                "`train.check_in` = 'by_text' with `aggregation.privacy.mechanism` = "
                f"{self.aggregation.privacy.mechanism!r}: the accounting is of people who are "
                "drawn alike. Set it to 'uniform'."
            )
        if not self.client.max_examples:
            raise ValueError(
                "`train.check_in` = 'by_text' needs `client.max_examples` > 0, the messages after "
                f"which a client checks in again, got {self.client.max_examples}."
            )
        rule = self.aggregation.rule
        if not self.train.check_in_factor and isinstance(rule, ORDER_STATISTICS):
            raise ValueError(
                f"`train.check_in_factor` = 0 with `aggregation.rule.name` = {rule.name!r}: whoever"
                " claims enough text is drawn in every round, and no rule holds against most of a "
                f"cohort. Set it to {TrainConfig.check_in_factor:g}, or `train.check_in` to "
                "'uniform'."
            )

    def _check_row_correction(self) -> None:
        for name, found in (
            ("client.algorithm", "fedsgd" if isinstance(self.client, FedSgdClient) else ""),
            ("aggregation.rule.name", "fedmed" if self.aggregation.rule.name == "fedmed" else ""),
            (
                "fine_tuning.server.name",
                "transfer" if isinstance(self.fine_tuning.server, Transfer) else "",
            ),
        ):
            if found:
                raise ValueError(
                    f"`aggregation.row_correction.kind` = 'touched' with `{name}` = {found!r}: "
                    "its clients do not tell which words they typed. Set it to 'none'."
                )

    def _check_transfer(self) -> None:
        aggregation = self.aggregation
        protection, noise = aggregation.protection, aggregation.client_noise
        for name, found, allowed in (
            ("client.algorithm", self.client.algorithm, "fedavg"),
            ("aggregation.rule.name", aggregation.rule.name, "mean"),
            ("aggregation.privacy.mechanism", aggregation.privacy.mechanism, "none"),
            ("aggregation.compression.codec", aggregation.compression.codec, "none"),
            ("aggregation.client_noise.distribution", noise.distribution, "none"),
            (
                "aggregation.protection.clipping",
                protection.clipping,
                "auto" if isinstance(protection, AutoProtection) else "off",
            ),
            ("aggregation.protection.zeroing", getattr(protection, "zeroing", False), False),
        ):
            if found != allowed:
                raise ValueError(
                    f"`{name}` = {found!r} with `fine_tuning.server.name` = 'transfer': the server "
                    "learns from individual models instead of aggregating. "
                    f"Set it to {allowed!r}."
                )
        if isinstance(self.client, FedAvgClient) and self.client.schedule != Constant():
            raise ValueError(
                "`client.schedule` with `fine_tuning.server.name` = 'transfer': each client is a "
                "process of its own, whose rate is constant. Remove it."
            )
        if self.server != FedAvgM():
            raise ValueError(
                "`server` has no effect with `fine_tuning.server.name` = 'transfer': the server's "
                "training is set in [fine_tuning.server]. Remove [server]."
            )
