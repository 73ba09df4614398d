"""Recommends a training for a corpus: config, duration and expected quality, from measured runs.

Recall depends more on the kind of text than on its size (paid dialogues repeat themselves, text
messages of many countries do not), so no formula is fitted. The advice shows the corpora nearest in
size and the results on them.

The time of a training is estimated as CPU seconds of a known machine:

    seconds of one core = START + rounds * (SERVER + clients * CLIENT) + operations / SPEED

CLIENT and SERVER grow with the weights of the model, which are copied, clipped and added up.
Operations are the ones of the matrix products: 6 per weight and target in training, 2 in
validation. The constants are fitted to whole trainings: docs/performance.md, what `advise` expects.

It reads only the data card: counts, no text.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from tff_keyboard import config as config_lib
from tff_keyboard.config.sections.averaging_config import NoAverage
from tff_keyboard.config.sections.data_config import DataConfig
from tff_keyboard.data.store.client_sizes import ClientSizes
from tff_keyboard.host.machine_speed import Machine
from tff_keyboard.models.registry.cifg import CifgConfig
from tff_keyboard.privacy.registry.none import NoPrivacy
from tff_keyboard.storage import shipped_files
from tff_keyboard.training.advice import reference
from tff_keyboard.training.advice.warnings_of_card import LITTLE_TEXT_WORDS, warnings_of_card

PASSES = 6.0
FEWEST_ROUNDS = 300  # steps of the server; FedAdam with cosine is not measured with fewer
VALIDATIONS = 10

# Clients drawn by how much they typed: better than any other on `ubuntu_irc` and blogs, with the
# server twin's learning curve, and on 300,000 words, from nothing as from a general model
# (docs/results.md, "Which choices matter"). On little text with more dropout.
MUCH_TEXT = "configs/reference/ubuntu_irc.toml"
LITTLE_TEXT = "configs/reference/persuasion.toml"
_MUCH_WORDS = 1_000_000

# Rows of the shipped model for the words that both have: on 300,000 words better than a start from
# random weights (docs/models/base.md, "Start your own training from it").
LEARNING_RATE_FROM_BASE = "server.learning_rate=0.002"
PASSES_FROM_BASE = 3.0


GFLOPS = 100.0  # of a core of the constants' machine, as `machine_speed` measures
SPEED = 60e9  # operations of a training per second of that core
START_SECONDS = 25.0  # imports, compiling
SERVER_SECONDS, SERVER_SECONDS_PER_WEIGHT = 0.03, 0.028e-6
CLIENT_SECONDS, CLIENT_SECONDS_PER_WEIGHT = 0.002, 0.006e-6


@dataclasses.dataclass(frozen=True)
class Cost:
    """CPU seconds on the machine of the constants."""

    alone: float  # seconds on one core, for any number of cores: start, server
    shared: float  # seconds of clients, divided among the cores

    def core_minutes(self, machine: Machine) -> float:
        """Returns the minutes of one core of a machine."""
        return (self.alone + self.shared) * GFLOPS / machine.gflops / 60

    def minutes(self, machine: Machine) -> float:
        """Returns the minutes on all cores of a machine without other load."""
        return (self.alone + self.shared / machine.cores) * GFLOPS / machine.gflops / 60


@dataclasses.dataclass(frozen=True)
class Advice:
    """Recommended training for a client store."""

    clients: int
    words: int
    recipe: str
    reason: str
    config: config_lib.RunConfig
    passes: float
    cost: Cost | None  # cost of the training; None if the model is not measured
    # the three corpora nearest in size, with the results on them
    nearest: tuple[reference.Corpus, ...]
    warnings: tuple[str, ...]


def advise(card: Mapping[str, Any], store: str, overrides: Sequence[str] = ()) -> Advice:
    """Recommends a training for a store.

    Args:
      card: Data card of the store.
      store: Path of the store.
      overrides: Config overrides, such as "train.rounds=100".

    Raises:
      ConfigError: An override is not valid, or the shipped configs are missing.
    """
    train = card["populations"]["train"]
    clients, words, messages = train["clients"], train["words"], train["messages"]
    is_much = words >= _MUCH_WORDS
    recipe = MUCH_TEXT if is_much else LITTLE_TEXT
    config = _config(card, store, recipe, PASSES, overrides)
    base = base_of(config.data.language)
    has_own = any("initial_model" in each for each in overrides)
    if base and not has_own and _base_helps(card, config):
        ours = [f"model.initial_model={base}", LEARNING_RATE_FROM_BASE, *overrides]
        config = _config(card, store, recipe, PASSES_FROM_BASE, ours)
    of_a_visit = _messages_of_a_visit(train, config)
    by_distance = sorted(reference.corpora(), key=lambda it: abs(math.log(it.words / words)))
    return Advice(
        clients=clients,
        words=words,
        recipe=recipe,
        reason=f"{'' if is_much else 'less than '}a million words{' and more' if is_much else ''}",
        config=config,
        passes=config.train.rounds * config.train.clients_per_round * of_a_visit / messages,
        cost=_cost(card, config, of_a_visit),
        nearest=tuple(sorted(by_distance[:3], key=lambda it: it.words)),
        warnings=warnings_of_card(card, base, is_fine_tuned=bool(config.model.initial_model)),
    )


def base_of(language: str) -> str | None:
    """Returns the directory of a language's shipped model, or None if there is none."""
    path = shipped_files.model_folder(language)
    return str(path) if shipped_files.locate(path).exists() else None


def _config(
    card: Mapping[str, Any], store: str, recipe: str, passes: float, overrides: Sequence[str]
) -> config_lib.RunConfig:
    """Returns a recipe's config for this store, with rounds for `passes`."""
    train = card["populations"]["train"]
    config = config_lib.load(recipe)
    clients = max(1, min(config.train.clients_per_round, train["clients"] // 4))
    visits = train["messages"] / _messages_of_a_visit(train, config)
    rounds = max(FEWEST_ROUNDS, math.ceil(passes * visits / clients))
    ours = [
        *_data_of(card, store),
        f"train.rounds={rounds}",
        f"train.clients_per_round={clients}",
        f"evaluation.every={rounds // VALIDATIONS}",
        "train.final_model=best",  # more passes than a corpus needs make the last one worse
    ]
    return config_lib.load(recipe, [*ours, *overrides])


def _base_helps(card: Mapping[str, Any], config: config_lib.RunConfig) -> bool:
    """Checks that there is little text, the base model fits, and the run makes no privacy claim.

    A privacy statement could not exclude that clients of the run contributed to the base model.
    """
    data, model = config.data, config.model
    return (
        card["populations"]["train"]["words"] < LITTLE_TEXT_WORDS
        and isinstance(model, CifgConfig)
        and (model.units, model.embedding_size) == (CifgConfig.units, CifgConfig.embedding_size)
        and isinstance(config.aggregation.privacy, NoPrivacy)
        and data.mode == "words"
        and data.lowercase
    )


def _data_of(card: Mapping[str, Any], store: str) -> list[str]:
    """Returns overrides that set [data] to the store's options, if its card has them."""
    option_names = {field.name for field in dataclasses.fields(DataConfig)}
    data = {key: value for key, value in card["options"].items() if key in option_names}
    data |= {"store": store, "input": []}
    return [config_lib.override(f"data.{key}", value) for key, value in data.items()]


def _messages_of_a_visit(population: Mapping[str, Any], config: config_lib.RunConfig) -> float:
    """Returns the mean number of messages of a client in a round."""
    clients, max_messages = ClientSizes.of_card(population), config.client.max_examples or math.inf
    if config.train.client_sampling == "uniform":
        return clients.mean(lambda messages: min(messages, max_messages))
    return clients.mean(
        lambda messages: min(messages, max_messages), max_messages, config.train.max_sampling_ratio
    )


def _cost(
    card: Mapping[str, Any], config: config_lib.RunConfig, messages_of_visit: float
) -> Cost | None:
    """Returns the cost of a training; None for models without measured constants.

    `messages_of_visit` is the mean number of messages of a client in a round.
    """
    model, train, every = config.model, config.train, config.evaluation.every
    if not isinstance(model, CifgConfig):
        return None
    units, width = model.units, model.embedding_size
    validation = card["populations"]["validation"]
    share = min(1.0, (config.evaluation.clients or math.inf) / max(validation["clients"], 1))
    models = 1 if isinstance(config.averaging, NoAverage) else 2
    num_validations = math.ceil(train.rounds / every) * models * share
    train_text = card["populations"]["train"]
    targets_of_message = (train_text["words"] + train_text["messages"]) / train_text["messages"]
    return training_cost(
        weights=card["vocabulary"]["rows"] * width + units * (7 * width + 3),
        rounds=train.rounds,
        clients=train.clients_per_round,
        targets=messages_of_visit * config.client.epochs * targets_of_message,
        validation_targets=num_validations * (validation["words"] + validation["messages"]),
    )


def training_cost(
    *, weights: int, rounds: int, clients: int, targets: float, validation_targets: float
) -> Cost:
    """Returns the cost of a training."""
    server = SERVER_SECONDS + SERVER_SECONDS_PER_WEIGHT * weights
    client = CLIENT_SECONDS + CLIENT_SECONDS_PER_WEIGHT * weights + 6 * weights * targets / SPEED
    validation = 2 * weights * validation_targets / SPEED
    return Cost(START_SECONDS + rounds * server, rounds * clients * client + validation)
