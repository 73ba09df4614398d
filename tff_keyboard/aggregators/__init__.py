"""TFF aggregation factories: aggregators, privacy, guards and compression."""

import tff_keyboard

__all__, __getattr__, __dir__ = tff_keyboard.lazy(__name__)
