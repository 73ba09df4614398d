"""Measures what fine-tuning on the phone is worth to each of many people, and whom it harms.

A person's messages, in the order typed, are cut in three: earlier ones to train on, some to decide
by, later ones to measure with. The gate keeps what was learnt only if the loss on the person's own
messages in the middle fell; who fails it goes on with the model as it came. Beside the network
stands, where the export has an n-gram, the hybrid with a cache of all that the person typed before,
with the weights as they came and as trained. So four models are measured, and the two gated ones
follow from them:

    network   tuned   cache   cache + tuned

Source of the idea: Wang et al. 2019, "Federated evaluation of on-device personalization",
https://arxiv.org/abs/1910.10252 (fine-tune on the device, accept by metrics on the device).
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from tff_keyboard.evaluation import predictor_evaluation
from tff_keyboard.evaluation.typed_text import TypedText
from tff_keyboard.storage.errors import ExportError
from tflite_export import signatures
from tflite_export.hybrid_keyboard import HybridKeyboard, Keyboard
from tflite_export.personalisation import MAX_TARGETS, train_message

NETWORK, TUNED, CACHE, CACHE_TUNED = "network", "tuned", "cache", "cache_tuned"

Messages = Sequence[Sequence[str]]
PersonSums = dict[str, float]  # every name of `HOST_SUMS`


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """How each person's model is trained and judged.

    Attributes:
      train_share: Of a person's messages, the first ones, to train on; in (0, 1).
      validation_share: Those behind them, to decide by; in (0, 1 - train_share).
      learning_rate: Of SGD, a message a step; > 0.
      epochs: Passes over the training part; >= 1.
      most_messages: Of a person, the latest; >= `FEWEST_MESSAGES`.

    Raises:
      ExportError: One is out of range.
    """

    train_share: float = 0.6
    validation_share: float = 0.2
    learning_rate: float = 0.05
    epochs: int = 1
    most_messages: int = 400

    def __post_init__(self) -> None:
        if not (
            0 < self.train_share < 1 and 0 < self.validation_share < 1
        ) or self.train_share + self.validation_share >= 1 - 1e-9:  # fmt: skip
            raise ExportError(
                "`train_share` and `validation_share` must be in (0, 1) and leave messages to "
                f"measure with, got {self.train_share} and {self.validation_share}."
            )
        if not 0 < self.learning_rate < math.inf:
            raise ExportError(f"`learning_rate` must be > 0, got {self.learning_rate}.")
        if self.epochs < 1:
            raise ExportError(f"`epochs` must be >= 1, got {self.epochs}.")
        if self.most_messages < FEWEST_MESSAGES:
            raise ExportError(
                f"`most_messages` must be >= {FEWEST_MESSAGES}, got {self.most_messages}."
            )

    def parts(self, messages: Messages) -> tuple[Messages, Messages, Messages]:
        """To train on, to decide by, to measure with; none is empty."""
        messages = messages[-self.most_messages :]
        first = max(1, round(self.train_share * len(messages)))
        second = max(first + 1, round((self.train_share + self.validation_share) * len(messages)))
        second = min(second, len(messages) - 1)
        return messages[:first], messages[first:second], messages[second:]


FEWEST_MESSAGES = 5  # of a person who takes part: three parts that are not empty


@dataclasses.dataclass(frozen=True)
class PersonResult:
    """What became of one person.

    Attributes:
      train_messages: Trained on.
      loss_before: On the messages in the middle, nats a target, by the model as it came.
      loss_after: The same, trained; None where training diverged.
      sums: Model -> sums on the later messages; where training diverged, the tuned ones are those
        of the model as it came.
    """

    train_messages: int
    loss_before: float
    loss_after: float | None
    sums: dict[str, PersonSums]

    @property
    def is_kept(self) -> bool:
        """Whether the gate keeps what was learnt."""
        return self.loss_after is not None and self.loss_after < self.loss_before


class Personaliser:
    """Trains and measures people one after the other, each from the weights as they came.

    Args:
      keyboard: A trainable export, with or without an n-gram; changed while it works.
      settings: How.

    Raises:
      ExportError: The file cannot train.
    """

    def __init__(self, keyboard: Keyboard, settings: Settings):
        self._keyboard = keyboard
        self._network = keyboard.network
        self._settings = settings
        self._train = self._network.signature(signatures.TRAIN)
        self._set_weights = self._network.signature(signatures.SET_WEIGHTS)
        found = self._network.signature(signatures.WEIGHTS)()
        self._initial = {name: np.array(value) for name, value in found.items()}

    @property
    def models(self) -> tuple[str, ...]:
        """What is measured."""
        has_cache = isinstance(self._keyboard, HybridKeyboard)
        return (NETWORK, TUNED, CACHE, CACHE_TUNED) if has_cache else (NETWORK, TUNED)

    def person(self, messages: Messages) -> PersonResult:
        """Trains on the first messages of one person and measures on the last.

        Args:
          messages: Of normalised words, none empty, oldest first; `FEWEST_MESSAGES` at least.
        """
        train, middle, later = self._settings.parts(messages)
        before = [list(words) for words in (*train, *middle)]
        self._reset()
        loss_before = self._loss(middle)
        sums = self._measure(later, before, NETWORK, CACHE)
        try:
            for _ in range(self._settings.epochs):
                for words in train:
                    train_message(self._network, words, self._settings.learning_rate)
            loss_after = self._loss(middle)
        except ExportError:
            loss_after = math.nan
        if math.isfinite(loss_after):
            tuned = self._measure(later, before, TUNED, CACHE_TUNED)
        else:
            tuned = {
                name: sums[as_it_came]
                for name, as_it_came in ((TUNED, NETWORK), (CACHE_TUNED, CACHE))
                if as_it_came in sums
            }
        self._reset()
        return PersonResult(
            train_messages=len(train),
            loss_before=loss_before,
            loss_after=loss_after if math.isfinite(loss_after) else None,
            sums={**sums, **tuned},
        )

    def _reset(self) -> None:
        self._set_weights(**self._initial)
        self._network.reset()

    def _loss(self, messages: Messages) -> float:
        sums = _sums(self._network, messages, ())
        return sums["nll"] / sums["tokens"]

    def _measure(
        self, later: Messages, before: list[list[str]], alone: str, with_cache: str
    ) -> dict[str, PersonSums]:
        found = {alone: _sums(self._network, later, ())}
        if isinstance(self._keyboard, HybridKeyboard):
            found[with_cache] = _sums(self._keyboard, later, before)
        return found


def _sums(predictor: Keyboard, messages: Messages, before: Sequence[list[str]]) -> PersonSums:
    text = TypedText(
        "one person", ("",), ([list(words) for words in messages],), before=(list(before),)
    )
    found = predictor_evaluation.evaluate(predictor, text, max_length=MAX_TARGETS).sums
    return {name: float(values[0]) for name, values in found.items()}
