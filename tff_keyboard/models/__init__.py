"""Next-word models. Their modules import TensorFlow, but not TFF."""

import tff_keyboard

__all__, __getattr__, __dir__ = tff_keyboard.lazy(__name__)
