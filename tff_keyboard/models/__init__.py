"""Next-word models. Their modules import TensorFlow, never TFF."""

from typing import TYPE_CHECKING

import tff_keyboard

if TYPE_CHECKING:
    from tff_keyboard.models.next_word_model import NextWordModel as NextWordModel
    from tff_keyboard.models.registry import MODELS as MODELS
    from tff_keyboard.models.registry import build_model as build_model

__all__, __getattr__, __dir__ = tff_keyboard.lazy("models")
