"""The keyboard runs where TensorFlow and SciPy are not installed."""

import subprocess
import sys

from tests.support.console import ROOT

PROGRAM = """
import sys
sys.modules["tensorflow"] = sys.modules["scipy"] = None
from tff_keyboard_app.keyboard import strip, terminal_keyboard, typing_session, user_history
from tff_keyboard_app.keyboard.server import keyboard_server
assert not [name for name in sys.modules if name.startswith(("tensorflow", "keras"))][1:]
"""


def test_the_keyboard_needs_no_tensorflow():
    subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, check=True)
