"""The runtime of an exported keyboard. Needs no TensorFlow if LiteRT is installed."""

import tff_keyboard

__all__, __getattr__, __dir__ = tff_keyboard.lazy("runtime")
