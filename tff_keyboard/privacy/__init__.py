"""Privacy guarantees of runs: accounting, the ledger, the statement. Imports no TensorFlow."""

import tff_keyboard

__all__, __getattr__, __dir__ = tff_keyboard.lazy(__name__)
