"""Next-word models. Imports TensorFlow, never TFF."""

from tff_keyboard.models.next_word_model import NextWordModel
from tff_keyboard.models.registry import MODELS, build_model

__all__ = ["MODELS", "NextWordModel", "build_model"]
