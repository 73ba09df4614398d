"""What a model is worth to people it never trained on: sums per person, ratios, intervals."""

import tff_keyboard

__all__, __getattr__, __dir__ = tff_keyboard.lazy("evaluation")
