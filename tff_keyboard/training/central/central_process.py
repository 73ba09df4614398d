"""Builds the central training of a config for the round loop, on this machine or on a node."""

from tff_keyboard import models
from tff_keyboard.algorithms import schedules
from tff_keyboard.algorithms.optimizers import optimizers
from tff_keyboard.algorithms.round_process import RoundProcess
from tff_keyboard.config import RunConfig
from tff_keyboard.config.sections.fine_tuning_config import LearningWithoutForgetting
from tff_keyboard.config.sections.learning_config import CentralAdam, CentralSgd, FedAvgClient
from tff_keyboard.models import NextWordModel
from tff_keyboard.storage.errors import ConfigError
from tff_keyboard.training.central.central_training import CentralTraining
from tff_keyboard.training.loop.scheduled_process import ScheduledProcess


def build_central_process(config: RunConfig, model: NextWordModel) -> RoundProcess:
    """Builds central training with the optimizer of [central] and [fine_tuning.method].

    The current weights of the model are the initial ones, also of a teacher. Training changes the
    instance.

    Raises:
      ConfigError: The clients have no optimizer, or a teacher has no trained weights.
    """
    client = config.client
    if not isinstance(client, FedAvgClient):
        raise ConfigError(
            "`client.type` = 'fedsgd' has no optimizer for train-server. Use 'fedavg'."
        )
    optimizer = optimizers.build_central_optimizer(config.central, client)
    method = config.fine_tuning.method
    if isinstance(method, LearningWithoutForgetting):
        process = CentralTraining(
            model, optimizer, _teacher(config, model), method.true_label_weight
        )
    else:
        process = CentralTraining(model, optimizer)
    table: FedAvgClient | CentralAdam = (
        client if isinstance(config.central, CentralSgd) else config.central
    )
    if schedules.is_constant(table.schedule):
        return process
    return ScheduledProcess(
        process, lambda t: {"optimizer": table.learning_rate * schedules.factor(table.schedule, t)}
    )


def _teacher(config: RunConfig, model: NextWordModel) -> NextWordModel:
    if not config.model.initial_model:
        raise ConfigError(
            "`fine_tuning.method.type` = 'lwf' requires `model.initial_model` for train-server: "
            "it is the teacher. Set it to a trained model, or use another method."
        )
    teacher = models.build_model(
        config.model.type,
        vocabulary_size=model.vocabulary_size,
        seed=None,
        **config.model.options(),
    )
    teacher.set_weights(model.get_weights())
    return teacher
