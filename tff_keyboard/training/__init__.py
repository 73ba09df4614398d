"""Trains a config or a learning process: the result is a run directory with a model.

The top layer of the library.
"""

import tff_keyboard

__all__, __getattr__, __dir__ = tff_keyboard.lazy(__name__)
