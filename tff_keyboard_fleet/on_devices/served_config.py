"""Checks that devices and the protocol support a config, and derives plans from it."""

import dataclasses
import math
from typing import Any

from tff_keyboard.algorithms import schedules
from tff_keyboard.algorithms.registry.fedavg import FedAvgClient
from tff_keyboard.config import ConfigError, RunConfig
from tff_keyboard.config.sections.aggregation_config import NoClipping, NoCompression
from tff_keyboard.config.sections.devices_config import DevicesConfig
from tff_keyboard_fleet.on_devices.secure_grid import SecureGrid, secure_grid
from tff_keyboard_fleet.round_server.rounds import RoundSettings
from tff_keyboard_fleet.wire import messages, secure_steps
from tff_keyboard_fleet.wire.plan import (
    MAX_SEPARATION,
    Cache,
    Codec,
    Conditions,
    Plan,
    SecureSums,
)
from tff_keyboard_fleet.wire.secure_sums.neighbours import failure

_STEP = "a device trains with plain SGD, one message per step, like the `train` signature"
_DRAW = "devices check in when they are ready; the server does not sample them"
_SERVER = "it would apply to uploads, on the server"
_MAX_LOST = 1e-6  # largest chance to lose a secure sum because of surplus seats alone


def as_served(config: RunConfig) -> RunConfig:
    """Returns `config` as `serve-rounds` runs it: with a checkpoint every round.

    Raises:
      ConfigError: If it uses a feature that devices, or the protocol, do not support.
    """
    client, train, aggregation = config.client, config.train, config.aggregation
    privacy, model = aggregation.privacy, config.model
    for name, value, allowed, reason in (
        (
            "client.type",
            client.type,
            "fedavg",
            "a device trains with plain SGD, and sends its update alone",
        ),
        ("client.batch_size", client.batch_size, 1, _STEP),
        ("client.momentum", getattr(client, "momentum", 0), 0, _STEP),
        ("client.gradient_clip_norm", getattr(client, "gradient_clip_norm", 0), 0, _STEP),
        ("data.long_messages", config.data.long_messages, "truncate", "a device truncates"),
        ("model.type", model.type, "cifg", "only the CIFG has a training graph for devices"),
        ("model.embedding_dropout", getattr(model, "embedding_dropout", 0), 0, _STEP),
        ("model.output_dropout", getattr(model, "output_dropout", 0), 0, _STEP),
        ("fine_tuning.method.type", config.fine_tuning.method.type, "retraining", _STEP),
        (
            "fine_tuning.server.type",
            config.fine_tuning.server.type,
            "averaging",
            "transfer is a simulation only, because the server sees the model of every client",
        ),
        (
            "aggregation.row_correction.type",
            aggregation.row_correction.type,
            "none",
            "devices do not reveal which words were typed",
        ),
        (
            "aggregation.client_noise.type",
            aggregation.client_noise.type,
            "none",
            _SERVER,
        ),
        ("train.client_sampling", train.client_sampling, "uniform", _DRAW),
        ("train.dropout_rate", train.dropout_rate, 0, "devices drop out on their own"),
        ("train.excluded_client", train.excluded_client, -1, _DRAW),
        (
            "aggregation.privacy.noise_cohort_size",
            getattr(privacy, "noise_cohort_size", 0),
            0,
            "a projection is only for a simulation",
        ),
        ("execution.engine", config.execution.engine, "local", "uploads arrive at this machine"),
    ):
        if value != allowed:
            raise ConfigError(
                f"`{name}` = {value!r} cannot be used with devices: {reason}. Set it to "
                f"{allowed!r}."
            )
    if train.min_separation_rounds > MAX_SEPARATION:
        raise ConfigError(
            f"`train.min_separation_rounds` = {train.min_separation_rounds} cannot be used with "
            f"devices: they follow plans with at most {MAX_SEPARATION}."
        )
    if config.devices.secure_sums:
        round_settings_of(config)  # rejects aggregations that are not sums
        check_sums_of_devices(config)
    return dataclasses.replace(
        config,
        train=dataclasses.replace(train, checkpoint_every=1),
    )


def check_sums_of_devices(config: RunConfig) -> None:
    """Rejects secure sums of too few devices, and sums that `train.over_selection` alone can lose.

    Reports close at the goal, so that all other seats may have shared and count as dropped out.
    Such a sum may be lost with a probability of at most one in a million, by the bound
    `neighbours.failure`, which is nearly the exact probability if it is small. Devices that drop
    out after they reported are not part of this bound.
    """
    degree, goal = config.devices.secure_neighbours, config.train.clients_per_round
    min_reports, max_seats = min_reports_of(config), _seats(config)
    if min_reports <= degree:
        raise ConfigError(
            f"`devices.secure_neighbours` = {degree} needs more devices in a sum: "
            f"`devices.min_report_fraction` of `train.clients_per_round` can be as few as "
            f"{min_reports}. Use fewer neighbours, or more clients."
        )

    def lost(degree: int) -> float:
        return failure(max_seats, degree, degree // 2 + 1, max_seats - goal)

    if lost(degree) > _MAX_LOST:
        enough = [x for x in range(2, min(min_reports, 101), 2) if lost(x) <= _MAX_LOST]
        instead = f"at least {enough[0]} neighbours, or less" if enough else "less"
        raise ConfigError(
            f"`devices.secure_neighbours` = {degree} loses a sum with probability up to "
            f"{lost(degree):.1g} if {goal} of {max_seats} seats report. Use {instead} "
            "`train.over_selection`."
        )


def _threshold(degree: int, seats: int, goal: int) -> int:
    """Returns the number of shares that recover a secret: as many as dropouts permit.

    The higher the threshold, the more colluding devices a lying server needs
    (`neighbours.min_honest_in_sum`). All seats above the goal may drop out and lose at most one sum
    in a million, and two in five neighbours of a device may drop out.
    """
    threshold = degree // 2 + 1
    while (
        threshold < degree * 3 // 5
        and failure(seats, degree, threshold + 1, seats - goal) <= _MAX_LOST
    ):
        threshold += 1
    return threshold


def as_decoded(config: RunConfig) -> RunConfig:
    """Returns `config` for a process of uploads that devices have already quantised or clipped."""
    aggregation = dataclasses.replace(config.aggregation, compression=NoCompression())
    if config.devices.secure_sums:
        aggregation = dataclasses.replace(aggregation, protection=NoClipping())
    return dataclasses.replace(config, aggregation=aggregation)


def secure_sums_of(config: RunConfig) -> SecureSums | None:
    """Returns the settings of secure sums, or None if uploads are not masked."""
    if not config.devices.secure_sums:
        return None
    grid = secure_grid(config.aggregation, clients_per_round=config.train.clients_per_round)
    return sums_on_grid(config, grid)


def sums_on_grid(config: RunConfig, grid: SecureGrid) -> SecureSums:
    """Returns the settings of secure sums of a config's devices on a grid."""
    degree, goal = config.devices.secure_neighbours, config.train.clients_per_round
    return SecureSums(
        clip_norm=grid.clip_norm,
        step=grid.step,
        bits=grid.bits,
        degree=degree,
        threshold=_threshold(degree, _seats(config), goal),
    )


def round_settings_of(config: RunConfig, parameters: int = 0) -> RoundSettings:
    """Returns seats, goal and deadline of rounds, and whether devices send their losses first.

    They do so for FedMed's topK, if only topK uses the deltas that it leaves out. `parameters` is
    the size of a secure sum.
    """
    goal, top = config.train.clients_per_round, None
    rule, protection = config.aggregation.rule, config.aggregation.resolved_protection
    # Adaptive bounds learn from every delta of a round, including the deltas that topK leaves out.
    if not rule.uses_all_clients and protection == NoClipping():
        top = rule.top_count
    sums = secure_sums_of(config)
    return RoundSettings(
        top=top,
        sums=secure_steps.settings(sums, parameters) if sums else None,
        goal=goal,
        max_seats=_seats(config),
        min_reports=min_reports_of(config),
        deadline_seconds=config.devices.deadline_seconds,
        separation=config.train.min_separation_rounds,
    )


def min_reports_of(config: RunConfig) -> int:
    """Returns the smallest number of devices of a round that is not abandoned."""
    goal = config.train.clients_per_round
    return math.ceil(round(config.devices.min_report_fraction * goal, 9))


def _seats(config: RunConfig) -> int:
    return config.train.selected_per_round


def plan_of(config: RunConfig, round_num: int, **facts: Any) -> Plan:
    """Returns the plan of a round.

    Args:
      config: The config.
      round_num: Number of the round, >= 1.
      facts: `vocabulary`, `graph` and `parameters` of the plan.
    """
    client, devices, rule = config.client, config.devices, config.aggregation.rule
    assert isinstance(client, FedAvgClient)
    compression = config.aggregation.compression
    codec = Codec()
    if not isinstance(compression, NoCompression):
        codec = Codec(name=messages.QUANTISED, bits=compression.bits)
    secure_sums = secure_sums_of(config)
    if secure_sums:
        codec = Codec(name=messages.MASKED)
    return Plan(
        population=devices.population,
        learning_rate=client.learning_rate * schedules.factor(client.schedule, round_num),
        epochs=client.epochs,
        max_messages=client.max_examples,
        max_targets=config.data.max_length,
        weighting=config.aggregation.client_weighting,
        loss=rule.reported_loss or "during_training",
        clip=None,
        codec=codec,
        phases=["upload"] if round_settings_of(config).top is None else ["loss", "upload"],
        secure_sums=secure_sums,
        conditions=conditions_of(devices),
        cache=cache_of(devices),
        min_separation_rounds=config.train.min_separation_rounds,
        **facts,
    )


def conditions_of(devices: DevicesConfig) -> Conditions:
    """Returns the conditions of a plan."""
    return Conditions(
        ram_gib=devices.ram_gib,
        charging=devices.charging,
        unmetered=devices.unmetered,
        idle=devices.idle,
        locale=devices.locale,
        app_versions=list(devices.app_versions),
        min_examples=devices.min_examples,
        min_days_between=devices.min_days_between,
    )


def cache_of(devices: DevicesConfig) -> Cache:
    """Returns the limits of a plan on the cache of a device."""
    return Cache(ttl_days=devices.cache_days, max_per_category=devices.cache_messages)
