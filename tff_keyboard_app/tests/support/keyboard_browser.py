"""The keyboard page in headless Chromium, used like a user does, and checked with axe-core."""

import contextlib
import hashlib
import io
import os
import pathlib
import queue
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time

import pytest

ROOT = pathlib.Path(__file__).parents[3]
CHROMIUM, CHROMEDRIVER = shutil.which("chromium"), shutil.which("chromedriver")
# Without these, Chromium of a machine without a network keeps trying to reach its servers.
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1100,980",
)
SECONDS = 300  # to wait for anything, on a busy machine

NEEDS_BROWSER = [
    pytest.mark.browser,
    pytest.mark.skipif(
        not (CHROMIUM and CHROMEDRIVER),
        reason="chromium and chromedriver are not installed (Debian: chromium chromium-driver)",
    ),
]

AXE = "axe-core-4.10.2"
AXE_SHA256 = "b511cd9dec01c76f4b2ad1723b66b6db37d4c2eb4ed199076e1829d9ee7b75e3"


def play(*arguments):
    return [sys.executable, "-m", "tasks", "play", *map(str, arguments)]


@contextlib.contextmanager
def served(*models):
    """Returns the address of the task in its own process, which is ended with Ctrl-C."""
    with subprocess.Popen(
        play(*models, "--port=0"), cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            line = server.stdout.readline()
            yield re.search(r"http://127\.0\.0\.1:\d+/\S+", line).group()
            server.send_signal(signal.SIGINT)
            assert server.wait(SECONDS) == 0
        finally:
            server.kill()  # a test that failed must not wait for it


@contextlib.contextmanager
def served_here(*models, **options):
    """Returns the address of a server in a thread of this process, which has TensorFlow."""
    from tff_keyboard_app.commands import play as play_task
    from tff_keyboard_app.keyboard.server import keyboard_server

    made: queue.Queue = queue.Queue()
    make = keyboard_server.make_server

    def make_and_tell(*arguments):
        server = make(*arguments)
        made.put(server)
        return server

    chosen = play_task.Options(models=models, port=0, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keyboard_server, "make_server", make_and_tell)
        thread = threading.Thread(target=play_task.run, args=(chosen,), daemon=True)
        thread.start()
        server = made.get(timeout=SECONDS)
        try:
            yield server.address
        finally:
            server.shutdown()
            thread.join(SECONDS)


@contextlib.contextmanager
def browser(profile):
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with webdriver.Chrome(options=options, service=webdriver.ChromeService(CHROMEDRIVER)) as driver:
        yield driver


class Page:
    """The page, with the actions of a user."""

    def __init__(self, driver, address):
        self.driver = driver
        driver.get_log("browser")  # what pages before this one have logged
        driver.get(address)
        self.settle()

    def wait(self, script, message):
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            if self.driver.execute_script(f"return {script}"):
                return
            time.sleep(0.02)
        raise AssertionError(message)

    def settle(self):
        """Waits until the strip belongs to the last key."""
        self.wait(
            "Boolean(document.body.dataset.shown)"
            " && document.body.dataset.shown === document.body.dataset.asked",
            "the strip was not updated",
        )

    def find(self, selector):
        return self.driver.find_element("css selector", selector)

    def find_all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def type(self, *keys):
        self.find("#text").send_keys(*keys)
        self.settle()

    def write(self, text):
        """Types key by key, each after the strip of the previous key."""
        for character in text:
            self.type(character)

    def press_on_screen(self, *names):
        for name in names:
            self.find(f'#keys [data-key="{name}"]').click()
            self.settle()

    def strip(self):
        return [button.text for button in self.find_all("#strip button")]

    def tap(self, place):
        self.find_all("#strip button")[place].click()
        self.settle()

    def focused(self):
        return self.driver.execute_script(
            "return document.activeElement.id || document.activeElement.dataset.key"
        )

    def errors(self):
        """Returns what the browser has logged since the last call, and since this page came."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    @property
    def text(self):
        return self.find("#text").get_property("value")

    def counts(self):
        """Returns (characters, keystrokes, saved)."""
        return tuple(int(self.find(f"#{i}").text) for i in ("characters", "keystrokes", "saved"))


def axe_script():
    """Returns the accessibility checker from a cache of the tests.

    Skips the test if it is missing.
    """
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
    path = cache / "tff-keyboard-tests" / f"{AXE}.min.js"
    if not path.is_file():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("axe-core is not in the cache and npm is not installed")
        path.parent.mkdir(parents=True, exist_ok=True)
        package = path.parent / f"{AXE}.tgz"
        command = [npm, "pack", AXE.replace("core-", "core@"), "--pack-destination", path.parent]
        try:
            subprocess.run(command, capture_output=True, timeout=600, check=True)
            with tarfile.open(fileobj=io.BytesIO(package.read_bytes())) as archive:
                content = archive.extractfile("package/axe.min.js").read()
        except (OSError, subprocess.SubprocessError):
            pytest.skip("axe-core cannot be fetched with npm")
        path.write_bytes(content)
    content = path.read_bytes()
    assert hashlib.sha256(content).hexdigest() == AXE_SHA256, f"{path} is not {AXE}"
    return content.decode()
