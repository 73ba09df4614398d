"""Learning processes, the processes that wrap them, and an execution context for TFF."""

import tff_keyboard

__all__, __getattr__, __dir__ = tff_keyboard.lazy(__name__)
