from tflite_export.runtime.hybrid_keyboard import HybridKeyboardPredictor, open_keyboard
from tflite_export.runtime.interpreters import installed_runtimes
from tflite_export.runtime.keyboard_predictor import KeyboardPredictor, Strip

__all__ = [
    "HybridKeyboardPredictor",
    "KeyboardPredictor",
    "Strip",
    "installed_runtimes",
    "open_keyboard",
]
