"""Client data: from people's text to the batches one client trains on."""

import tff_keyboard

__all__, __getattr__, __dir__ = tff_keyboard.lazy("data")
