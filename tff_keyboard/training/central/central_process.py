"""Central training of a config, as the round loop trains it, on this machine or on a node."""

from tff_keyboard import models
from tff_keyboard.config import RunConfig
from tff_keyboard.config.sections.fine_tuning_config import LearningWithoutForgetting
from tff_keyboard.config.sections.learning_config import CentralSgd, FedAvgClient
from tff_keyboard.federated.learning import schedules
from tff_keyboard.federated.learning.optimizers import optimizers
from tff_keyboard.models import NextWordModel
from tff_keyboard.program.rounds.round_process import RoundProcess
from tff_keyboard.program.rounds.scheduled_process import ScheduledProcess
from tff_keyboard.storage.errors import ConfigError
from tff_keyboard.training.central.central_training import CentralTraining


def build_central_process(config: RunConfig, model: NextWordModel) -> RoundProcess:
    """Central training with the optimizer and schedule of [central], by [fine_tuning.method].

    The model's weights now are the initial ones, and those of a teacher; it is used up by training.
    Raises `ConfigError` if the clients have no optimizer, or a teacher has learnt nothing.
    """
    client = config.client
    if not isinstance(client, FedAvgClient):
        raise ConfigError(
            "`client.algorithm` = 'fedsgd' has no optimizer for train-server. Use 'fedavg'."
        )
    optimizer = optimizers.build_central_optimizer(config.central, client)
    method = config.fine_tuning.method
    if isinstance(method, LearningWithoutForgetting):
        process = CentralTraining(
            model, optimizer, _teacher(config, model), method.true_label_weight
        )
    else:
        process = CentralTraining(model, optimizer)
    table = client if isinstance(config.central, CentralSgd) else config.central
    if schedules.is_constant(table.schedule):
        return process
    return ScheduledProcess(
        process, lambda t: {"optimizer": table.learning_rate * schedules.factor(table.schedule, t)}
    )


def _teacher(config: RunConfig, model: NextWordModel) -> NextWordModel:
    if not config.model.initial_model:
        raise ConfigError(
            "`fine_tuning.method.name` = 'lwf' needs `model.initial_model` for train-server: it is "
            "the teacher. Name a trained model, or use another method."
        )
    teacher = models.build_model(
        config.model.name,
        vocabulary_size=model.vocabulary_size,
        seed=None,
        **config.model.options(),
    )
    teacher.set_weights(model.get_weights())
    return teacher
