"""Central training of a config, as the round loop trains it, on this machine or on a node."""

from tff_keyboard.config import RunConfig
from tff_keyboard.config.sections.learning_config import CentralSgd, FedAvgClient
from tff_keyboard.federated.learning import schedules
from tff_keyboard.federated.learning.optimizers import optimizers
from tff_keyboard.models import NextWordModel
from tff_keyboard.program.rounds.round_process import RoundProcess
from tff_keyboard.program.rounds.scheduled_process import ScheduledProcess
from tff_keyboard.storage.errors import ConfigError
from tff_keyboard.training.central.central_training import CentralTraining


def build_central_process(config: RunConfig, model: NextWordModel) -> RoundProcess:
    """Central training with the optimizer and the schedule of [central].

    Args:
      model: Its weights now are the initial ones; it is used up by training.
    """
    client = config.client
    if not isinstance(client, FedAvgClient):
        raise ConfigError(
            "`client.algorithm` = 'fedsgd' has no optimizer for train-server. Use 'fedavg'."
        )
    process = CentralTraining(model, optimizers.build_central_optimizer(config.central, client))
    table = client if isinstance(config.central, CentralSgd) else config.central
    if schedules.is_constant(table.schedule):
        return process
    return ScheduledProcess(
        process,
        lambda t: {"optimizer": table.learning_rate * schedules.factor(table.schedule, t)},
    )
