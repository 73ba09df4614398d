"""Exports a trained model to a checked `.tflite` file."""

import tff_keyboard

__all__, __getattr__, __dir__ = tff_keyboard.lazy("export")
