"""Client data: from typed text to the batches that a client trains on."""

import tff_keyboard

__all__, __getattr__, __dir__ = tff_keyboard.lazy(__name__)
