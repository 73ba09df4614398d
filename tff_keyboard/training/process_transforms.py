"""The transforms around the process of a run: noise, learning rates, an average of the models."""

import functools
from collections.abc import Mapping
from typing import Protocol, cast

from tff_keyboard.algorithms import schedules
from tff_keyboard.algorithms.fine_tuning import server_transfer
from tff_keyboard.algorithms.registry.fedavg import FedAvgClient
from tff_keyboard.algorithms.rounds import noised
from tff_keyboard.algorithms.rounds.averaged import AveragedProcess
from tff_keyboard.algorithms.rounds.round_process import RoundTransform
from tff_keyboard.algorithms.rounds.scheduled import RatesOfRound, ScheduledProcess
from tff_keyboard.config import RunConfig
from tff_keyboard.config.sections.averaging_config import NoAverage
from tff_keyboard.config.sections.central_config import (
    CentralAdam,
    CentralSgd,
)
from tff_keyboard.config.sections.fine_tuning_config import TransferConfig
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.models import NextWordModel
from tff_keyboard.parts import own_part
from tff_keyboard.parts.schedule import Schedule
from tff_keyboard.training.run_privacy import RunPrivacy


class ScheduledOptimizer(Protocol):
    """A table with a learning rate and its schedule."""

    @property
    def learning_rate(self) -> float:
        """The full learning rate."""

    @property
    def schedule(self) -> Schedule:
        """How the rate changes from round to round."""


def clients_per_pack(config: RunConfig) -> int:
    """Returns the largest number of clients that train in one call; 0 means 16 calls per round."""
    if isinstance(config.fine_tuning.server, TransferConfig):
        return 1  # the server learns from the model of each client
    return config.execution.clients_per_pack


def round_transforms(
    config: RunConfig,
    model: NextWordModel,
    privacy: RunPrivacy | None,
    general_store: ClientStore | None = None,
    *,
    is_on_devices: bool = False,
) -> list[RoundTransform]:
    """Returns the transforms around the packed learning process of a run, the innermost first.

    Args:
      config: Config of the run.
      model: The model before training.
      privacy: Noise key and mechanism of a private run.
      general_store: The store of `fine_tuning.general_store`, for transfer learning on the server.
      is_on_devices: Whether clients are devices. They get their learning rates from a plan. Other
        devices may upload to a round of a run that is restored from a backup, so the noise of each
        round depends on its uploads. With the user's own parts it depends on the sum of the round,
        because this package cannot know the results of their code.
    """
    transforms: list[RoundTransform] = []
    if isinstance(config.fine_tuning.server, TransferConfig):
        transforms.append(
            server_transfer.build_server_transfer(
                config.fine_tuning.server,
                model,
                general_store,
                max_length=config.data.max_length,
                seed=config.train.seed,
            )
        )
    if privacy is not None and privacy.key is not None:
        assert privacy.build_noise is not None
        content = None
        if any(own_part.parts_in(config)):
            content = noised.content_of_sums(privacy.key.key)
        elif is_on_devices:
            content = noised.content_of_data(privacy.key.key)
        transforms.append(
            functools.partial(
                noised.NoisedProcess, build_noise=privacy.build_noise, content=content
            )
        )
    scheduled: dict[str, ScheduledOptimizer] = {"finalizer": config.server}
    if not is_on_devices and hasattr(config.client, "schedule"):
        scheduled["client_work"] = cast(ScheduledOptimizer, config.client)
    if not all(schedules.is_constant(table.schedule) for table in scheduled.values()):
        transforms.append(functools.partial(ScheduledProcess, rates=_rates_of(scheduled)))
    return [*transforms, *_averaging(config)]


def central_transforms(config: RunConfig) -> list[RoundTransform]:
    """Returns the transforms around the central training of a run, the innermost first."""
    table = config.client if isinstance(config.central, CentralSgd) else config.central
    assert isinstance(table, FedAvgClient | CentralAdam)  # `build_central_process` checks it
    transforms: list[RoundTransform] = []
    if not schedules.is_constant(table.schedule):
        rates = _rates_of({"optimizer": table})
        transforms.append(functools.partial(ScheduledProcess, rates=rates))
    return [*transforms, *_averaging(config)]


def _averaging(config: RunConfig) -> list[RoundTransform]:
    if isinstance(config.averaging, NoAverage):
        return []
    return [functools.partial(AveragedProcess, averaging=config.averaging)]


def _rates_of(
    optimizers_of_parts: Mapping[str, ScheduledOptimizer],
) -> RatesOfRound:
    """Returns the learning rate of each part of a state, as a function of the round."""
    return lambda round_num: {
        part: table.learning_rate * schedules.factor(table.schedule, round_num)
        for part, table in optimizers_of_parts.items()
    }
