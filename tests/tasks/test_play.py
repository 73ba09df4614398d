"""The keyboard page in headless Chromium, served by the task itself; and the task's errors."""

import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tests import export_fakes
from tflite_export.export import ExportOptions, export
from tflite_export.runtime import KeyboardPredictor

ROOT = pathlib.Path(__file__).parents[2]
CHROMIUM, CHROMEDRIVER = shutil.which("chromium"), shutil.which("chromedriver")
# Without these, Chromium of a machine without a network keeps trying to reach its servers.
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--window-size=1100,980",
)
SECONDS = 30  # to wait for anything, on a busy machine

needs_browser = [
    pytest.mark.browser,
    pytest.mark.skipif(
        not (CHROMIUM and CHROMEDRIVER),
        reason="chromium and chromedriver are not installed (Debian: chromium chromium-driver)",
    ),
]


def play(*arguments):
    return [sys.executable, "-m", "tasks", "play", *map(str, arguments)]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("play")
    paths = []
    for seed, name in enumerate(("phone", "other"), start=1):
        run = export_fakes.save_run(folder / f"run {seed}", seed)
        paths.append(export(run, folder / f"{name}.tflite", ExportOptions()).paths.model)
    return paths


@pytest.fixture(scope="module")
def address(models):
    """The task in a process of its own, ended as a person does: Ctrl-C."""
    with subprocess.Popen(
        play(*models, "--port=0"), cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as server:
        line = server.stdout.readline()
        yield re.search(r"http://127\.0\.0\.1:\d+/", line).group()
        server.send_signal(signal.SIGINT)
        assert server.wait(SECONDS) == 0


@pytest.fixture
def page(address, tmp_path):
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(CHROMEDRIVER)
    with webdriver.Chrome(options=options, service=service) as driver:
        driver.get(address)
        page = Page(driver)
        page.settle()
        yield page
        assert [entry["message"] for entry in driver.get_log("browser")] == []


class Page:
    """The page as a person uses it."""

    def __init__(self, driver):
        self.driver = driver

    def settle(self):
        """Waits until what is shown belongs to the last key."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            if self.driver.execute_script(
                "return document.body.dataset.shown === String(latestRequest)"
            ):
                return
            time.sleep(0.02)
        raise AssertionError("the strip was not updated")

    def find(self, selector):
        return self.driver.find_element("css selector", selector)

    def type(self, *keys):
        self.find("#text").send_keys(*keys)
        self.settle()

    def press_on_screen(self, *names):
        for name in names:
            self.find(f'#keys [data-key="{name}"]').click()
        self.settle()

    def strip(self):
        return [b.text for b in self.driver.find_elements("css selector", "#strip button")]

    def tap(self, place):
        self.driver.find_elements("css selector", "#strip button")[place].click()
        self.settle()

    @property
    def text(self):
        return self.find("#text").get_property("value")

    def counts(self):
        """(characters, keystrokes, saved)"""
        return tuple(int(self.find(f"#{i}").text) for i in ("characters", "keystrokes", "saved"))


def expected_strip(path, text):
    predictor = KeyboardPredictor(path)
    ranked = [word for word, _ in predictor.strip_for(text).suggestions]
    ranked += [""] * (3 - len(ranked))
    return [ranked[1], ranked[0], ranked[2]]


@pytest.fixture(scope="module")
def phone(models):
    return models[0]


class TestPage:
    pytestmark = needs_browser

    def test_strip_follows_every_key(self, page, phone):
        assert page.strip() == expected_strip(phone, "")
        for end in range(1, len("see you la") + 1):
            text = "see you la"[:end]
            page.type(text[-1])
            assert page.strip() == expected_strip(phone, text)

    def test_a_sentence_with_picked_suggestions(self, page, phone):
        """Types a start, takes the word, and so on: text, strip and counter at each step."""
        page.type("see you lat")
        left, middle, right = page.strip()
        page.tap(1)
        assert page.text == f"see you {middle} "
        assert page.counts() == (len(page.text), 12, len(page.text) - 12)
        assert page.strip() == expected_strip(phone, page.text)
        third = page.strip()[2]
        page.tap(2)
        assert page.text == f"see you {middle} {third} "
        assert page.counts()[1] == 13
        page.type(".")  # takes the place of the space the suggestion brought
        assert page.text == f"see you {middle} {third}. "
        page.type("\n")
        assert page.text == ""
        messages = page.driver.find_elements("css selector", "#messages li")
        assert [message.text for message in messages] == [f"see you {middle} {third}."]
        characters, keystrokes, saved = page.counts()
        assert (keystrokes, saved) == (14, characters - 14)
        assert page.strip() == expected_strip(phone, "")
        assert left != right

    def test_keys_on_the_screen(self, page, phone):
        page.press_on_screen("shift", "s", "e", "e", "space", "y")
        assert page.text == "See y"
        assert page.strip() == expected_strip(phone, "See y")
        page.press_on_screen("backspace", "symbols", "7", "letters", "t")
        assert page.text == "See 7t"
        assert page.counts() == (6, 8, -2)  # shift and layers are not counted, deleting is
        page.press_on_screen("backspace", "backspace", "send")
        assert page.find("#messages li").text == "See"

    def test_physical_shortcuts_take_suggestions(self, page):
        from selenium.webdriver.common.keys import Keys

        for digit, place in (("1", 0), ("2", 1), ("3", 2)):
            word = page.strip()[place]
            before = page.text
            page.find("#text").send_keys(Keys.ALT, digit)
            page.settle()
            assert page.text == f"{before}{word} "

    def test_two_models_side_by_side(self, page, models):
        page.type("are you ")
        cards = page.driver.find_elements("css selector", ".model")
        assert [card.get_attribute("aria-checked") for card in cards] == ["true", "false"]
        for card, path in zip(cards, models, strict=True):
            cells = card.find_elements("css selector", ".model-strip span")
            shown = [cell.text.splitlines()[0] for cell in cells]
            assert shown == expected_strip(path, "are you ")
        assert expected_strip(models[0], "are you ") != expected_strip(models[1], "are you ")
        cards[1].click()
        assert page.strip() == expected_strip(models[1], "are you ")
        page.tap(1)
        assert page.text == f"are you {expected_strip(models[1], 'are you ')[1]} "

    def test_suggestions_are_for_the_text_before_the_cursor(self, page, phone):
        from selenium.webdriver.common.keys import Keys

        page.type("see you lat")
        page.type(*[Keys.ARROW_LEFT] * 8)  # see| you lat
        assert page.strip() == expected_strip(phone, "see")
        word = page.strip()[1]
        page.tap(1)
        assert page.text == f"{word}  you lat"

    def test_a_paste_saves_nothing(self, page):
        page.driver.execute_script(
            "document.getElementById('text').focus();"
            "document.execCommand('insertText', false, 'see')"
        )
        page.settle()
        page.find("#restart").click()
        page.settle()
        assert page.counts() == (0, 0, 0)
        assert page.text == ""

    def test_every_control_has_a_name_and_can_be_reached(self, page):
        page.type("see you la")
        page.driver.set_window_size(1100, 980)
        for control in page.driver.find_elements("css selector", "button, textarea"):
            assert control.accessible_name.strip()
        assert page.find("#strip button.best").accessible_name.endswith("middle, best suggestion")
        page.driver.set_window_size(400, 900)  # a phone's width: nothing sticks out
        width = page.driver.execute_script("return document.documentElement.scrollWidth")
        assert width <= page.driver.execute_script("return window.innerWidth")


def test_terminal_reads_keys_from_a_pipe(phone):
    done = subprocess.run(
        play(phone, "--terminal"),
        input="see you lat\t\n",
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0
    word = expected_strip(phone, "see you lat")[1]
    assert f"> see you {word} " in done.stdout
    characters = len(f"see you {word} ")
    assert f"12 keystrokes for {characters} characters" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "Give one or two .tflite files; got 0 arguments."),
        (("a", "b", "c"), 2, "Give one or two .tflite files; got 3 arguments."),
        (("nowhere.tflite",), 3, "nowhere.tflite"),
    ],
)
def test_errors_are_one_line(arguments, code, message):
    done = subprocess.run(
        play(*arguments), capture_output=True, text=True, cwd=ROOT, timeout=120, check=False
    )
    assert done.returncode == code
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
