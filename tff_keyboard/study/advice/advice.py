"""What to train on a corpus of this size, how long it takes, what to expect: from measured runs.

Recall depends more on the kind of text than on its size (paid dialogues repeat themselves, text
messages of many countries do not), so no formula is fitted: the corpora nearest in size are shown,
with what was reached on them. Time follows from the measured cost of a round and of a client
(`recipes.py`),

    seconds = rounds * (ROUND + people * (FIXED + TOKEN * targets of a person) / cores)

Reads the data card only: counts, no text.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from tff_keyboard.study.advice import recipes, reference

PASSES = 6.0
FEWEST_ROUNDS = 300  # steps of the server; with fewer, nobody has seen FedAdam and its cosine work

_MUCH_TEXT = 1_000_000  # words; below, more dropout
_LITTLE_TEXT = 500_000  # words; below, general text first: 1.5 to 2 points more at 300,000
_TOO_LITTLE_TEXT = 20_000
_FEW_PEOPLE = 100


@dataclasses.dataclass(frozen=True)
class Advice:
    """What to do with a store.

    Attributes:
      people: Train people.
      words: Words that they typed.
      recipe: What to train.
      clients_per_round: Clients of a round of the recipe, fewer where there are few people.
      rounds: Rounds for so many passes, `FEWEST_ROUNDS` at least.
      passes: Passes over the train targets.
      minutes: Minutes with `cores` and nothing else running.
      cores: Cores of the machine.
      nearest: The three corpora nearest in size, with what was reached on them.
      warnings: Warnings, one sentence each.
    """

    people: int
    words: int
    recipe: recipes.Recipe
    clients_per_round: int
    rounds: int
    passes: float
    minutes: float
    cores: int
    nearest: tuple[reference.Corpus, ...]
    warnings: tuple[str, ...]

    def overrides(self, store: str) -> list[str]:
        """`--set` options of the recipe that train this store."""
        return [
            f"data.store={store}",
            f"train.rounds={self.rounds}",
            f"server.schedule.rounds={self.rounds}",
            f"train.clients_per_round={self.clients_per_round}",
            f"evaluation.every={max(1, self.rounds // 10)}",
        ]


def advise(card: Mapping[str, Any], *, cores: int) -> Advice:
    """Advice for the store of a data card.

    Args:
      card: Data card that `prepare` wrote.
      cores: Cores of the machine that will train, >= 1.

    Raises:
      ValueError: `cores` is out of range.
      ConfigError: `configs/reference.toml` is not here.
    """
    if cores < 1:
        raise ValueError(f"`cores` must be >= 1, got {cores}.")
    train = card["populations"]["train"]
    people, words, messages = train["clients"], train["words"], train["messages"]
    recipe = recipes.MUCH_TEXT if words >= _MUCH_TEXT else recipes.LITTLE_TEXT
    clients = recipe.clients(people)
    of_a_visit = recipe.messages_of_a_visit(train)
    visits_of_a_pass = messages / of_a_visit
    rounds = max(FEWEST_ROUNDS, math.ceil(PASSES * visits_of_a_pass / clients))
    passes = rounds * clients / visits_of_a_pass
    targets = of_a_visit * (words + messages) / messages
    seconds = recipes.seconds(clients, rounds, targets, cores)
    by_distance = sorted(reference.corpora(), key=lambda it: abs(math.log(it.words / words)))
    return Advice(
        people=people,
        words=words,
        recipe=recipe,
        clients_per_round=clients,
        rounds=rounds,
        passes=passes,
        minutes=seconds / 60,
        cores=cores,
        nearest=tuple(sorted(by_distance[:3], key=lambda it: it.words)),
        warnings=_warnings(card),
    )


def _warnings(card: Mapping[str, Any]) -> tuple[str, ...]:
    train = card["populations"]["train"]
    found = []
    if train["words"] < _TOO_LITTLE_TEXT:
        found.append(
            "So little text teaches a network nothing of its own: an n-gram (`compare ngram`), or "
            "a general model (`model.initial_model`), will be better."
        )
    elif train["words"] < _LITTLE_TEXT:
        found.append(
            "For so little text start from a general model: configs/reference/nus_sms.toml, "
            "docs/fine_tuning.md."
        )
    if train["clients"] < _FEW_PEOPLE:
        found.append(
            f"With {train['clients']} train people intervals will be wide (`tff-keyboard power`), "
            "and differential privacy would cost most of the recall."
        )
    if train["oov_rate"] > 0.15:
        found.append(
            f"{train['oov_rate']:.0%} of the train words are out of the vocabulary, which nothing "
            "can suggest: raise `data.vocabulary_size`."
        )
    return tuple(found)
