"""The page of `play` without a server: libcifg as WebAssembly, in headless Chromium."""

import functools
import http.server
import pathlib
import re
import shutil
import threading

import pytest

from libcifg.tests import vectors
from tff_keyboard_app.keyboard.server import keyboard_server
from tff_keyboard_app.tests.support import keyboard_browser
from tff_keyboard_lab.benchmarks.phone import libcifg
from tflite_export.runtime.hybrid_keyboard import open_keyboard

HAS_WASM = shutil.which("wasm-ld") and pathlib.Path("/usr/include/wasm32-wasi").is_dir()
PAGE = keyboard_server.PAGE
OFFLINE = pathlib.Path(__file__).parents[1] / "page" / "offline.js"


class Files(http.server.SimpleHTTPRequestHandler):
    """A folder, and the requests for its files."""

    asked: tuple[str, ...] = ()

    def log_message(self, format, *args):
        Files.asked += (self.path,)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return libcifg.make("page/index.html", tmp_path_factory.mktemp("web")).parent


@pytest.fixture(scope="module")
def address(folder):
    handler = functools.partial(Files, directory=folder)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    with keyboard_browser.browser(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


def test_every_request_of_the_page_is_answered_without_a_server():
    """Another request would send what was typed to the web server that has the page."""
    requests = {
        name
        for path in PAGE.glob("*.js")
        for name in re.findall(r'"api/(\w+)"', path.read_text(encoding="utf-8"))
    }
    answers = re.search(r"const ANSWERS = \{ (.*) \};", OFFLINE.read_text(encoding="utf-8"))
    assert answers is not None
    names = set(answers[1].split(", "))
    assert {"suggest", "add"} <= requests
    assert requests - names == {"events"}  # the page counts only if `models` says so
    assert "logs_events: false" in OFFLINE.read_text(encoding="utf-8")


@pytest.mark.slow
@keyboard_browser.NEEDS_BROWSER[0]
@keyboard_browser.NEEDS_BROWSER[1]
@pytest.mark.skipif(not HAS_WASM, reason="no compiler for WebAssembly")
def test_typing_and_learning(driver, address, folder, tmp_path):
    page = keyboard_browser.Page(driver, address)
    python = open_keyboard(vectors.MODEL)
    for text in ("See you ", "See you t", "See you tom"):
        page.type(text.removeprefix(page.text))
        best, left, right = (word for word, _ in python.strip_for(text).suggestions)
        assert page.strip() == [left, best, right]
    page.tap(1)
    assert page.text == "See you tomorrow "
    for _ in range(2):
        page.write("see you at Johann’s\n")
    page.write("see you at jo")
    assert page.strip()[1] == "johann's"
    assert [chip.text for chip in page.find_all("#own-words li")] == ["johann's"]
    hints = driver.find_element("id", "hints").text
    assert "Everything you type stays on this machine." in hints
    assert "corrected" not in hints
    driver.find_element("id", "new-word").send_keys("Zylquorvan\n")
    page.settle()
    assert "zylquorvan" in [chip.text for chip in page.find_all("#own-words li")]
    driver.save_screenshot(str(tmp_path / "page.png"))
    known = {f"/{path.name}" for path in folder.iterdir()} | {"/"}
    answer = driver.execute_async_script(
        "const done = arguments[0]; fetch('api/events', {method: 'POST', body: 'zylquorvan'})"
        ".then((response) => done(response.status));"
    )
    assert answer == 404
    assert set(Files.asked) <= known  # nothing that was typed
    assert "/cifg.wasm" in Files.asked
