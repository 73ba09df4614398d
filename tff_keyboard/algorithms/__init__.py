"""Learning processes, the processes that wrap them, and TFF's execution context of this project."""

import tff_keyboard

__all__, __getattr__, __dir__ = tff_keyboard.lazy("algorithms")
