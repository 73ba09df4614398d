"""A keyboard on an exported model: strip, corrections, page, personalisation, word lists.

    from tff_keyboard_app import AppKeyboard, TypingSession

    keyboard = AppKeyboard.open("models/base/keyboard.tflite")
    keyboard.keyboard_strip("I definately").words  # ("definitely", ...)

    session = TypingSession()
    session.type("I definately saw teh car. ", keyboard)
    session.text  # "I definitely saw the car. "

These names follow semantic versioning, as those of `tff_keyboard` do.
"""

import tff_keyboard

__all__, __getattr__, __dir__ = tff_keyboard.lazy(__name__)
