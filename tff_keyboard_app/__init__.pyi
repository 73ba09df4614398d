from tff_keyboard_app.keyboard.dictionary_files import Dictionary, Entry
from tff_keyboard_app.keyboard.dictionary_files import read as read_dictionary
from tff_keyboard_app.keyboard.dictionary_files import write as write_dictionary
from tff_keyboard_app.keyboard.multilingual import MultilingualKeyboard
from tff_keyboard_app.keyboard.strip import AppKeyboard
from tff_keyboard_app.keyboard.typing_session import KeyboardStrip, Slot, TypingSession

__all__ = [
    "AppKeyboard",
    "Dictionary",
    "Entry",
    "KeyboardStrip",
    "MultilingualKeyboard",
    "Slot",
    "TypingSession",
    "read_dictionary",
    "write_dictionary",
]
