"""Evaluates models on clients that they were not trained on: sums per client, ratios, intervals."""

import tff_keyboard

__all__, __getattr__, __dir__ = tff_keyboard.lazy(__name__)
