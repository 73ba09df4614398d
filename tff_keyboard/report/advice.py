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

from tff_keyboard.report import recipes

PASSES = 6.0
FEWEST_ROUNDS = 300  # steps of the server; with fewer, nobody has seen FedAdam and its cosine work

_MUCH_TEXT = 1_000_000  # words; below, more dropout
_LITTLE_TEXT = 500_000  # words; below, general text first: 1.5 to 2 points more at 300,000
_TOO_LITTLE_TEXT = 20_000
_FEW_PEOPLE = 100


@dataclasses.dataclass(frozen=True)
class Measured:
    """What a recipe reached on a corpus; shares in percent, end of message not counted.

    Attributes:
      corpus: Name.
      people: Of the train population.
      words: That they typed.
      passes: Over these, in targets.
      top_1: Recall.
      top_3: Recall.
      on: Whose text it is, and where this is recorded.
    """

    corpus: str
    people: int
    words: int
    passes: float
    top_1: float
    top_3: float
    on: str


# Held-out figures of reference models are those of docs/results/reference_*.csv (tested).
MEASURED = (
    Measured(
        *("PersuasionForGood (paid dialogues)", 1_039, 283_846, 10.5, 29.7, 43.9),
        "held out, by text",
    ),
    Measured(
        *("PersuasionForGood (paid dialogues)", 1_039, 283_846, 6.0, 31.2, 46.6),
        "held out, from the model of blogs",
    ),
    Measured("NUS SMS (text messages)", 198, 299_902, 5.3, 7.7, 14.7, "held out, FedAvg"),
    Measured("NUS SMS (text messages)", 198, 299_902, 5.0, 8.8, 16.5, "held out, by text"),
    Measured(
        *("NUS SMS (text messages)", 198, 299_902, 3.1, 10.9, 19.0),
        "held out, from the model of blogs",
    ),
    Measured("text messages and dialogues", 1_249, 596_240, 6.9, 17.0, 26.7, "held out, by text"),
    Measured("ubuntu_irc (support chat)", 14_340, 1_871_871, 1.0, 13.2, 23.0, "validation"),
    Measured("ubuntu_irc (support chat)", 14_340, 1_871_871, 2.6, 15.6, 26.4, "validation"),
    Measured("ubuntu_irc (support chat)", 14_340, 1_871_871, 5.7, 16.4, 27.2, "held out"),
    Measured(
        "ubuntu_irc (support chat)", 14_340, 1_871_871, 5.3, 17.1, 28.1, "held out, two parts"
    ),
    Measured("ubuntu_irc (support chat)", 14_340, 1_871_871, 4.2, 17.4, 28.7, "held out, by text"),
    Measured("WikiText-2 (prose)", 100, 2_051_910, 0.3, 14.0, 23.6, "held out, FedAvg"),
    Measured("blogs", 7_346, 23_500_818, 2.7, 18.1, 30.1, "held out, two parts"),
    Measured("blogs", 7_346, 23_500_818, 1.2, 18.5, 30.8, "held out, by text"),
    Measured("blogs", 7_346, 23_500_818, 1.9, 18.7, 31.1, "held out, by text, two parts"),
)


@dataclasses.dataclass(frozen=True)
class Advice:
    """What to do with a store.

    Attributes:
      people: Train people.
      words: That they typed.
      recipe: What to train.
      clients_per_round: Of the recipe, fewer where there are few people.
      rounds: For so many passes, `FEWEST_ROUNDS` at least.
      passes: Over the train targets.
      minutes: With `cores` and nothing else running.
      cores: Of the machine.
      nearest: Measured on corpora nearest in size, by corpus and passes.
      warnings: Sentences.
    """

    people: int
    words: int
    recipe: recipes.Recipe
    clients_per_round: int
    rounds: int
    passes: float
    minutes: float
    cores: int
    nearest: tuple[Measured, ...]
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
      card: As `prepare` wrote it.
      cores: Of the machine that will train; >= 1.

    Raises:
      ValueError: `cores` is out of range.
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
    by_distance = sorted({m.words for m in MEASURED}, key=lambda n: abs(math.log(n / words)))
    nearest = tuple(m for m in MEASURED if m.words in by_distance[:3])
    return Advice(
        people, words, recipe, clients, rounds, passes, seconds / 60, cores, nearest,
        _warnings(card),
    )  # fmt: skip


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
            "For so little text start from a general model: configs/reference/nus_sms.toml or "
            "configs/nus_sms_pretrained.toml, docs/fine_tuning.md."
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
