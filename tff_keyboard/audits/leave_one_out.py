"""The trainings that an audit compares: one with everyone, and one without each of some people."""

import dataclasses
import pathlib
from collections.abc import Sequence

from tff_keyboard.config import ConfigError, RunConfig
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.training.federated import train_federated


def train_without_each(
    config: RunConfig, workdir: pathlib.Path, left_out: Sequence[int]
) -> tuple[pathlib.Path, list[pathlib.Path]]:
    """Trains with everyone and without each of some people, unless that is done.

    `left_out` are positions of train clients in sorted order. Raises `ConfigError` if one is none,
    or `config` leaves somebody out itself.
    """
    if config.train.left_out_client != -1:
        raise ConfigError(
            f"`train.left_out_client` = {config.train.left_out_client} is what --left-out is for. "
            "Take it out of the config."
        )
    population = len(ClientStore(config.data.store).client_ids("train"))
    for position in left_out:
        if not 0 <= position < population:
            raise ConfigError(
                f"--left-out must name positions in [0, {population}), the train clients of "
                f"{config.data.store}; got {position}."
            )
    runs = []
    for position in (-1, *dict.fromkeys(left_out)):
        path = workdir / ("all" if position == -1 else f"without_{position}")
        print(f"== {path.name}", flush=True)
        without = dataclasses.replace(config.train, left_out_client=position)
        train_federated(dataclasses.replace(config, train=without), path)
        runs.append(path)
    return runs[0], runs[1:]
