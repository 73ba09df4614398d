"""The keyboard page in other languages: keys, capitals and its example."""

import pytest

from tests.support.keyboard import export_fakes
from tests.support.keyboard.export_fakes import export
from tff_keyboard.data.text import casing
from tff_keyboard_app.keyboard.languages import LANGUAGES
from tff_keyboard_app.tests.support import keyboard_browser
from tflite_export.export.export_options import ExportOptions

pytestmark = keyboard_browser.NEEDS_BROWSER


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    with keyboard_browser.browser(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture(scope="module", params=["tr", "es", pytest.param("de", marks=pytest.mark.slow)])
def address(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    run = export_fakes.save_run(folder / "run", language=request.param)
    model = export(run, folder / f"{request.param}.tflite", ExportOptions()).paths.model
    with keyboard_browser.served_here(model) as address:
        yield request.param, address


@pytest.fixture
def page(driver, address):
    page = keyboard_browser.Page(driver, address[1])
    yield address[0], page
    assert page.errors() == []


def shown_keys(page):
    """Returns the rows of the labels of the visible character keys."""
    rows = page.find_all("#keys .row")[:3]
    keys = [row.find_elements("css selector", ".key:not(.special)") for row in rows]
    return ["".join(key.text for key in row if key.is_displayed()) for row in keys]


def test_keys_capitals_and_suggestions(page):
    language, page = page
    rows = list(LANGUAGES[language].keys)
    large = {
        "de": "QWERTZUIOPÜ ASDFGHJKLÖÄ YXCVBNMẞ",
        "tr": "QWERTYUIOPĞÜ ASDFGHJKLŞİ ZXCVBNMÖÇ",
        "es": "QWERTYUIOP ASDFGHJKLÑ ZXCVBNM",
    }
    assert shown_keys(page) == large[language].split()  # a sentence starts
    first, rest, word = {
        "de": ("ü", "berm", "Übermorgen"),
        "tr": ("i", "st", "İstiyorum"),
        "es": ("e", "spañ", "Español"),
    }[language]
    page.press_on_screen(first)
    assert shown_keys(page) == rows
    page.press_on_screen(*rest)
    assert page.text == word[: 1 + len(rest)]
    assert word in page.strip()
    page.tap(page.strip().index(word))
    assert page.text == f"{word} "
    page.press_on_screen("symbols")
    assert shown_keys(page) == ["1234567890", "@#$&-+()/", "*\"':;!?"]
    page.press_on_screen("7", "letters")
    assert shown_keys(page) == rows


def test_a_held_key_offers_letters_with_marks(page, driver):
    from selenium.webdriver import ActionChains

    language, page = page
    offered = casing.upper(LANGUAGES[language].held.get("u", ""), language)
    key = page.find('#keys [data-key="u"]')
    ActionChains(driver).click_and_hold(key).pause(1).release(key).perform()
    assert "".join(button.text for button in page.find_all(".marked .key")) == offered
    letter, text = {"de": ("ü", "Uün"), "tr": ("û", "Ûn"), "es": ("ú", "Ún")}[language]
    page.press_on_screen(letter, "n")
    assert page.text == text  # a key that offers nothing types its letter
    assert not page.find_all(".marked .key")
    assert language != "es" or "Único" in page.strip()


def test_physical_keys_get_the_capitals_of_the_language(page):
    language, page = page
    page.write("iyi")
    assert page.text == {"de": "Iyi", "tr": "İyi", "es": "Iyi"}[language]


def test_the_page_names_the_language_and_speaks_english(page):
    language, page = page
    assert page.find("#text").get_attribute("lang") == language
    assert page.find("html").get_attribute("lang") == "en"
    assert page.find("#saved-title").text == "Keystrokes saved"
    assert page.find("#replay-text").get_property("value") == LANGUAGES[language].example


def test_the_example_can_be_typed_by_the_page(page):
    language, page = page
    example = LANGUAGES[language].example
    page.find("#replay").click()
    page.wait("document.body.dataset.replay === 'done'", "the example was not typed")
    (message,) = page.find_all("#messages li")
    assert message.text.lower() == example.lower()


def test_a_small_phone_shows_all_keys(page, driver):
    _, page = page
    metrics = {"width": 360, "height": 640, "deviceScaleFactor": 1, "mobile": True}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        widths, sideways = driver.execute_script(
            "return [[...document.querySelectorAll('.key')].map((key) => key.offsetWidth),"
            " document.documentElement.scrollWidth - innerWidth]"
        )
    finally:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert min(widths) >= 25
    assert sideways <= 0
