"""Makes the README's picture of the keyboard page, from the shipped model.

python -m tff_keyboard_lab.tools.keyboard_picture [--out=docs/figures/keyboard.png]

Starts `tff-keyboard play models/base/keyboard.tflite`, sends two messages, types a third one, and
saves the phone on the page. Needs Chromium and its driver (Debian: chromium, chromium-driver). The
README says in words what the picture shows; a test compares them with the model.
"""

import argparse
import pathlib
import shutil
import sys
import tempfile
import threading
import time
from typing import Any

from tff_keyboard.predictors.hybrid.word_cache import WordCache
from tff_keyboard.storage import shipped_files
from tff_keyboard_app.keyboard.server import keyboard_server
from tff_keyboard_app.keyboard.strip import AppKeyboard
from tff_keyboard_app.keyboard.user_history import UserHistory
from tflite_export.runtime.hybrid_keyboard import open_keyboard

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = pathlib.Path("models/base/keyboard.tflite")
MESSAGES = ("Hi Anna, how are you?", "Are you coming to the concert tomorrow?")
TEXT = "What time does it st"
_SECONDS = 60
_SETTLED = (
    "return Boolean(document.body.dataset.shown)"
    " && document.body.dataset.shown === document.body.dataset.asked"
)


def opened() -> tuple[AppKeyboard, UserHistory]:
    """Returns the keyboard of the picture and its owner, who has sent no message yet."""
    cache = WordCache()
    predictor = open_keyboard(shipped_files.locate(MODEL), cache=cache)
    return AppKeyboard(predictor), UserHistory([predictor], cache)


def suggestions() -> tuple[str, ...]:
    """Returns the words on the strip of the picture, from left to right."""
    keyboard, owner = opened()
    for message in MESSAGES:
        owner.learn(message)
    return tuple(slot.word for slot in keyboard.keyboard_strip(TEXT).slots if slot is not None)


def save(out: pathlib.Path) -> None:
    """Saves the picture, with two pixels for one of the page."""
    keyboard, owner = opened()
    server = keyboard_server.make_server({MODEL.name: keyboard}, 0, owner)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        _photograph(server.address, out)
    finally:
        server.shutdown()
        thread.join()


def _photograph(address: str, out: pathlib.Path) -> None:
    """Types the messages on the page, and writes a picture of the phone."""
    from selenium import webdriver

    chromium, driver_path = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver_path is None:
        sys.exit("error: chromium and chromedriver are not installed.")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    with tempfile.TemporaryDirectory() as profile:
        flags = ("headless", "no-sandbox", "disable-gpu", "force-device-scale-factor=2")
        for flag in (*flags, "window-size=1100,760", f"user-data-dir={profile}"):
            options.add_argument(f"--{flag}")
        service = webdriver.ChromeService(driver_path)
        with webdriver.Chrome(options=options, service=service) as driver:
            driver.get(address)
            _wait(driver)
            for keys in [*(f"{message}\n" for message in MESSAGES), TEXT]:
                for key in keys:
                    driver.find_element("css selector", "#text").send_keys(key)
                    _wait(driver)
            driver.find_element("css selector", ".phone").screenshot(str(out))


def _wait(driver: Any) -> None:
    """Waits until the strip belongs to the last key."""
    deadline = time.monotonic() + _SECONDS
    while not driver.execute_script(_SETTLED):
        if time.monotonic() > deadline:
            sys.exit("error: the page shows no suggestions.")
        time.sleep(0.02)


def main() -> None:
    """Saves the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    figures = ROOT / "docs" / "figures"
    parser.add_argument("--out", type=pathlib.Path, default=figures / "keyboard.png")
    save(parser.parse_args().out)
    print(", ".join(suggestions()))


if __name__ == "__main__":
    main()
