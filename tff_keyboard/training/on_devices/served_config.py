"""What of a config the wire can carry: all else is refused, with the reason."""

import dataclasses
import functools
import math
from typing import Any

from tff_keyboard.config import ConfigError, RunConfig
from tff_keyboard.config.sections.aggregation_config import NoClipping, NoCompression
from tff_keyboard.config.sections.learning_config import FedAvgClient
from tff_keyboard.config.sections.privacy_config import MechanismConfig
from tff_keyboard.config.sections.rule_config import FedMed
from tff_keyboard.config.secure_grid import secure_grid
from tff_keyboard.federated.learning import schedules
from tff_keyboard.round_server.rounds import Terms
from tff_keyboard.wire import messages, secure_steps
from tff_keyboard.wire.plan import Cache, Codec, Conditions, Plan, SecureSums
from tff_keyboard.wire.secure_sums.neighbours import failure

_STEP = "a device trains a message a step by plain SGD, as the `train` signature does"
_DRAW = "devices choose when they come; nobody draws them"
_SERVER = "it would be done to uploads, on the server"
_MOST_LOST = 1e-6  # chance to lose a secure sum by surplus seats alone


def as_served(config: RunConfig) -> RunConfig:
    """`config` as `serve-rounds` runs it: a checkpoint every round, no record beside the store.

    Raises:
      ConfigError: It asks for what devices, or the protocol, do not do.
    """
    client, train, aggregation = config.client, config.train, config.aggregation
    privacy, model = aggregation.privacy, config.model
    for name, found, allowed, reason in (
        ("client.algorithm", client.algorithm, "fedavg", "devices send deltas, not gradients"),
        ("client.batch_size", client.batch_size, 1, _STEP),
        ("client.momentum", getattr(client, "momentum", 0), 0, _STEP),
        ("client.gradient_clip_norm", getattr(client, "gradient_clip_norm", 0), 0, _STEP),
        ("data.long_messages", config.data.long_messages, "keep", "a device cuts long messages"),
        ("model.name", model.name, "cifg", "the graph that devices train is that of the CIFG"),
        ("model.embedding_dropout", getattr(model, "embedding_dropout", 0), 0, _STEP),
        ("model.output_dropout", getattr(model, "output_dropout", 0), 0, _STEP),
        ("fine_tuning.method.name", config.fine_tuning.method.name, "retraining", _STEP),
        (
            "fine_tuning.server.name",
            config.fine_tuning.server.name,
            "averaging",
            "transfer learns from clients' models one by one, and would have to keep them",
        ),
        (
            "aggregation.row_correction.kind",
            aggregation.row_correction.kind,
            "none",
            "devices do not tell which words were typed",
        ),
        (
            "aggregation.client_noise.distribution",
            aggregation.client_noise.distribution,
            "none",
            _SERVER,
        ),
        ("train.cohort.kind", train.cohort.kind, "steady", "rounds have one report goal"),
        ("train.check_in", train.check_in, "uniform", _DRAW),
        ("train.dropout_rate", train.dropout_rate, 0, "devices drop out by themselves"),
        ("train.left_out_client", train.left_out_client, -1, _DRAW),
        (
            "aggregation.privacy.sampling",
            getattr(privacy, "sampling", "fixed_size"),
            "fixed_size",
            _DRAW,
        ),
        (
            "aggregation.privacy.noise_cohort_size",
            getattr(privacy, "noise_cohort_size", 0),
            0,
            "a projection is of a simulation",
        ),
        ("execution.engine", config.execution.engine, "local", "uploads are on this machine"),
    ):
        if found != allowed:
            raise ConfigError(
                f"`{name}` = {found!r} cannot be served: {reason}. Set it to {allowed!r}."
            )
    if isinstance(privacy, MechanismConfig):
        if privacy.participation == "record":
            raise ConfigError(
                "`aggregation.privacy.participation` = 'record' cannot be served: the record is of "
                "people in a client store, and the server knows keys of devices only. Set it to "
                "'off'."
            )
        privacy = dataclasses.replace(privacy, participation="off")
    if config.devices.secure_sums:
        _check_secure(config)
    return dataclasses.replace(
        config,
        aggregation=dataclasses.replace(aggregation, privacy=privacy),
        train=dataclasses.replace(train, checkpoint_every=1),
    )


def _check_secure(config: RunConfig) -> None:
    """Refuses a sum that may be of too few, or is lost by `train.over_selection` alone.

    Reports close at the goal, so that all other seats may have shared and count as dropped out. By
    `neighbours.failure`, nearly the chance itself where it is small, such a sum is lost at most
    once in a million; what else drops out behind the keys has the room that is left below it.
    """
    terms, degree = terms_of(config), config.devices.secure_neighbours
    if terms.least <= degree:
        raise ConfigError(
            f"`devices.secure_neighbours` = {degree} needs more devices in a sum, and "
            f"`devices.least_share` of `train.clients_per_round` may leave {terms.least}. "
            "Take fewer neighbours, or more clients."
        )
    surplus = terms.most - terms.goal

    def lost(degree: int) -> float:
        return failure(terms.most, degree, _threshold(degree), surplus)

    if lost(degree) > _MOST_LOST:
        enough = [x for x in range(2, min(terms.least, 101), 2) if lost(x) <= _MOST_LOST]
        instead = f"at least {enough[0]} neighbours, or less" if enough else "less"
        raise ConfigError(
            f"`devices.secure_neighbours` = {degree} loses a sum with a chance of up to "
            f"{lost(degree):.1g} when {terms.goal} of {terms.most} seats have reported. Take "
            f"{instead} `train.over_selection`."
        )


def _threshold(degree: int) -> int:
    """Shares that give a secret: no more, for drop-outs; `neighbours.exposure` has the price."""
    return degree // 2 + 1


def as_decoded(config: RunConfig) -> RunConfig:
    """`config` for a process of uploads that devices have quantised, or clipped, already."""
    aggregation = dataclasses.replace(config.aggregation, compression=NoCompression())
    if config.devices.secure_sums:
        aggregation = dataclasses.replace(aggregation, protection=NoClipping())
    return dataclasses.replace(config, aggregation=aggregation)


def secure_sums_of(config: RunConfig) -> SecureSums | None:
    """How uploads are masked; None: they are not."""
    if not config.devices.secure_sums:
        return None
    grid = secure_grid(config.aggregation, clients_per_round=config.train.clients_per_round)
    degree = config.devices.secure_neighbours
    return SecureSums(
        clip_norm=grid.clip_norm,
        step=grid.step,
        bits=grid.bits,
        degree=degree,
        threshold=_threshold(degree),
    )


def terms_of(config: RunConfig, parameters: int = 0) -> Terms:
    """Seats, goal and deadline of its rounds; whether FedMed's topK is asked for losses first.

    That it is where nothing but topK looks at the deltas that it leaves out. `parameters` is the
    size of a secure sum.
    """
    goal, top = config.train.clients_per_round, None
    rule, protection = config.aggregation.rule, config.aggregation.resolved_protection
    # Adaptive bounds learn from every delta of a round, also from those that topK leaves out.
    if isinstance(rule, FedMed) and rule.top_fraction < 1 and protection == NoClipping():
        from tff_keyboard.federated.algorithms.fedmed.aggregator import top_count  # TFF, late

        top = functools.partial(top_count, rule.top_fraction)
    sums = secure_sums_of(config)
    return Terms(
        top=top,
        sums=secure_steps.settings(sums, parameters) if sums else None,
        goal=goal,
        most=math.ceil(round(config.train.over_selection * goal, 9)),
        least=math.ceil(round(config.devices.least_share * goal, 9)),
        deadline_seconds=config.devices.deadline_seconds,
        separation=config.train.min_separation_rounds,
    )


def plan_of(config: RunConfig, round_num: int, **facts: Any) -> Plan:
    """What devices do in a round.

    Args:
      facts: `vocabulary`, `graph` and `parameters` of the plan.
    """
    client, devices, rule = config.client, config.devices, config.aggregation.rule
    assert isinstance(client, FedAvgClient)
    compression = config.aggregation.compression
    codec = Codec()
    if not isinstance(compression, NoCompression):
        bits, rotated = compression.bits, compression.rotated
        codec = Codec(name=messages.QUANTISED, bits=bits, rotated=rotated)
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
        loss=rule.local_loss if isinstance(rule, FedMed) else "during_training",
        clip=None,
        codec=codec,
        phases=["upload"] if terms_of(config).top is None else ["loss", "upload"],
        secure_sums=secure_sums,
        conditions=Conditions(
            ram_gib=devices.ram_gib,
            charging=devices.charging,
            unmetered=devices.unmetered,
            idle=devices.idle,
            locale=devices.locale,
            app_versions=list(devices.app_versions),
            least_examples=devices.least_examples,
            least_days_between=devices.least_days_between,
        ),
        cache=Cache(ttl_days=devices.cache_days, most_per_category=devices.cache_messages),
        **facts,
    )
