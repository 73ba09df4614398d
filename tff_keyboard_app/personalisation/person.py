"""Measures the benefit of fine-tuning on the phone for each of many users, and its harm.

A user's messages are split into three parts (`on_device.Settings`). The gate keeps the trained
weights only if the loss on the messages in the middle fell; otherwise the user continues with the
original model. If the export has an n-gram, the hybrid with a cache of all words that the user
typed before is measured as well, with the original and with the trained weights. So four models are
measured, and the two gated ones follow from them:

    network   tuned   cache   cache + tuned

Source of the idea: Wang et al. 2019, "Federated evaluation of on-device personalization",
https://arxiv.org/abs/1910.10252 (fine-tune on the device, accept by metrics on the device).
"""

import dataclasses
import math

import numpy as np

from tff_keyboard.storage.errors import ExportError
from tff_keyboard_app.personalisation import on_device
from tflite_export.format import signatures
from tflite_export.runtime import training_step
from tflite_export.runtime.hybrid_keyboard import HybridKeyboardPredictor, Keyboard

NETWORK, TUNED, CACHE, CACHE_TUNED = "network", "tuned", "cache", "cache_tuned"


@dataclasses.dataclass(frozen=True)
class PersonResult:
    """The result of one user."""

    train_messages: int
    loss_before: float  # loss on the messages in the middle, nats a target, of the original model
    loss_after: float | None  # the same after training; None if training diverged
    # Model -> sums on the later messages. If training diverged, the sums of the tuned models are
    # those of the original model.
    sums: dict[str, on_device.PersonSums]

    @property
    def is_kept(self) -> bool:
        """Whether the gate keeps the trained weights."""
        return self.loss_after is not None and self.loss_after < self.loss_before


class Personaliser:
    """Trains and measures users one after the other, each from the original weights.

    It changes the keyboard, with or without an n-gram, meanwhile.

    Raises:
      ExportError: If the keyboard's file cannot train.
    """

    def __init__(self, keyboard: Keyboard, settings: on_device.Settings):
        self._keyboard = keyboard
        self._network = keyboard.network
        self._settings = settings
        self._train = self._network.signature(signatures.TRAIN)
        self._set_weights = self._network.signature(signatures.SET_WEIGHTS)
        weights = self._network.signature(signatures.WEIGHTS)()
        self._initial = {name: np.array(value) for name, value in weights.items()}

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the measured models."""
        has_cache = isinstance(self._keyboard, HybridKeyboardPredictor)
        return (NETWORK, TUNED, CACHE, CACHE_TUNED) if has_cache else (NETWORK, TUNED)

    def person(self, messages: on_device.Messages) -> PersonResult:
        """Trains on the first messages of one user, and measures on the last ones.

        There must be at least `MIN_MESSAGES` messages of normalised words, none empty, oldest
        first.
        """
        train, middle, later = self._settings.parts(messages)
        before = [list(words) for words in (*train, *middle)]
        self._reset()
        loss_before = on_device.mean_loss(self._network, middle)
        sums = self._measure(later, before, NETWORK, CACHE)
        try:
            for _ in range(self._settings.epochs):
                for words in train:
                    training_step.train_message(self._network, words, self._settings.learning_rate)
            loss_after = on_device.mean_loss(self._network, middle)
        except ExportError:
            loss_after = math.nan
        if math.isfinite(loss_after):
            tuned = self._measure(later, before, TUNED, CACHE_TUNED)
        else:
            tuned = {
                name: sums[original]
                for name, original in ((TUNED, NETWORK), (CACHE_TUNED, CACHE))
                if original in sums
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

    def _measure(
        self, later: on_device.Messages, before: list[list[str]], alone: str, with_cache: str
    ) -> dict[str, on_device.PersonSums]:
        """Returns the sums on later messages of the network, and of the hybrid if there is one.

        The hybrid's cache learns the messages `before` first. `alone` and `with_cache` are the
        keys.
        """
        sums = {alone: on_device.sums_of_person(self._network, later)}
        if isinstance(self._keyboard, HybridKeyboardPredictor):
            sums[with_cache] = on_device.sums_of_person(self._keyboard, later, before)
        return sums
