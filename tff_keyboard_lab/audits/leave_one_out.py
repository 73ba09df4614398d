"""Trains the models that an audit compares: with all clients, and without each of some clients."""

import dataclasses
import pathlib
from collections.abc import Sequence

from tff_keyboard.config import ConfigError, RunConfig
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.training.federated import train_federated


def train_without_each(
    config: RunConfig, workdir: pathlib.Path, excluded_clients: Sequence[int]
) -> tuple[pathlib.Path, list[pathlib.Path]]:
    """Trains with all clients and without each of some clients, unless the runs are finished.

    Args:
      config: The config.
      workdir: Folder of the runs.
      excluded_clients: Positions of train clients in sorted order.

    Returns:
      The run with all clients, and the runs without one.

    Raises:
      ConfigError: If a position is out of range, or `config` itself leaves out a client.
    """
    if config.train.excluded_client != -1:
        raise ConfigError(
            f"`train.excluded_client` = {config.train.excluded_client} cannot be used with "
            "--excluded-client. Remove it from the config."
        )
    population = len(ClientStore(config.data.store).client_ids("train"))
    for position in excluded_clients:
        if not 0 <= position < population:
            raise ConfigError(
                f"--excluded-client must name positions in [0, {population}), the train clients of "
                f"{config.data.store}; got {position}."
            )
    runs = []
    for position in (-1, *dict.fromkeys(excluded_clients)):
        path = workdir / ("all" if position == -1 else f"without_{position}")
        print(f"== {path.name}", flush=True)
        without = dataclasses.replace(config.train, excluded_client=position)
        train_federated(dataclasses.replace(config, train=without), path)
        runs.append(path)
    return runs[0], runs[1:]
