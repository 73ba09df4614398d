"""The keyboard page in headless Chromium, served by the task itself; and the task's errors."""

import functools
import hashlib
import io
import json
import pathlib
import subprocess
import sys
import time

import pytest

from tests.support.keyboard import export_fakes, hybrid_export
from tests.support.keyboard.export_fakes import export
from tff_keyboard.command_line import cli
from tff_keyboard.predictors.hybrid.word_cache import WordCache
from tff_keyboard_app.commands import play as play_task
from tff_keyboard_app.events import event_log
from tff_keyboard_app.keyboard import cache_file
from tff_keyboard_app.keyboard.strip import AppKeyboard
from tff_keyboard_app.keyboard.user_history import UserHistory
from tff_keyboard_app.tests.support import keyboard_browser
from tff_keyboard_app.tests.support.keyboard_browser import ROOT, play
from tflite_export.export.export_options import ExportOptions
from tflite_export.runtime.hybrid_keyboard import open_keyboard

BACKSPACE_CASES = json.loads(
    (pathlib.Path(__file__).parents[1] / "support" / "backspace_cases.json").read_text("utf-8")
)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("play")
    paths = []
    for seed, name in enumerate(("phone", "other"), start=1):
        run = export_fakes.save_run(folder / f"run {seed}", seed)
        paths.append(export(run, folder / f"{name}.tflite", ExportOptions()).paths.model)
    return paths


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory):
    return hybrid_export.export_hybrid(tmp_path_factory.mktemp("own words"))


@pytest.fixture(scope="module")
def address(models):
    with keyboard_browser.served_here(*models) as address:
        yield address


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    with keyboard_browser.browser(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture
def page(driver, address):
    page = keyboard_browser.Page(driver, address)
    page.find("#forget-all").click()  # what the tests before have sent
    page.wait("document.getElementById('remembered').textContent === '0'", "not forgotten")
    page.settle()
    yield page
    assert page.errors() == []


@functools.cache
def keyboard(path, *sent):
    """A keyboard whose owner has sent these messages."""
    cache = WordCache()
    predictor = open_keyboard(path, cache=cache)
    owner = UserHistory([predictor], cache)
    for message in sent:
        owner.learn(message)
    return AppKeyboard(predictor)


def expected_strip(path, text, after="", sent=()):
    slots = keyboard(path, *sent).keyboard_strip(text, after).slots
    return [slot.word if slot else "" for slot in slots]


@pytest.fixture(scope="module")
def phone(models):
    return models[0]


class TestPage:
    pytestmark = keyboard_browser.NEEDS_BROWSER

    def test_strip_follows_every_key(self, page, phone):
        assert page.strip() == expected_strip(phone, "")
        for end in range(1, len("See you la") + 1):
            text = "See you la"[:end]
            page.type(text[-1])
            assert page.strip() == expected_strip(phone, text)

    def test_a_sentence_with_picked_suggestions(self, page, phone):
        """Types a beginning, accepts the word, and so on; checks text, strip and counter at each
        step.
        """
        page.write("See you lat")
        left, middle, right = page.strip()
        page.tap(1)
        assert page.text == f"See you {middle} "
        assert page.counts() == (len(page.text), 12, len(page.text) - 12)
        assert page.strip() == expected_strip(phone, page.text)
        third = page.strip()[2]
        page.tap(2)
        assert page.text == f"See you {middle} {third} "
        assert page.counts()[1] == 13
        page.type(".")  # takes the place of the space the suggestion brought
        assert page.text == f"See you {middle} {third}. "
        page.type("\n")
        assert page.text == ""
        message = f"See you {middle} {third}."
        assert [sent.text for sent in page.find_all("#messages li")] == [message]
        # Enter cost a key, and the space behind the message is no character.
        assert page.counts() == (len(message), 15, len(message) - 15)
        assert page.find("#share").text == f"{round(100 * (1 - 15 / len(message)))}%"
        assert page.strip() == expected_strip(phone, "", sent=[message])
        assert left != right

    @pytest.mark.slow
    def test_keys_on_the_screen(self, page, phone):
        page.press_on_screen("s", "e", "e", "space", "y")
        assert page.text == "See y"  # a sentence starts with a capital
        assert page.strip() == expected_strip(phone, "See y")
        page.press_on_screen("backspace", "symbols", "7", "letters", "t")
        assert page.text == "See 7t"
        assert page.counts() == (6, 8, -2)  # shift and layers are not counted, deleting is
        page.press_on_screen("backspace", "backspace", "send")
        assert page.find("#messages li").text == "See"


@pytest.mark.slow
class TestPageInDetail:
    pytestmark = keyboard_browser.NEEDS_BROWSER

    def test_shift_once_locked_and_off(self, page):
        page.press_on_screen("shift", "a", "shift", "b", "c")
        assert page.text == "aBc"  # the first tap took the capital of the start away
        page.press_on_screen("shift", "shift", "d", "e", "shift", "f")
        assert page.text == "aBcDEf"

    def test_a_capital_that_was_deleted_stays_away(self, page):
        page.write("s")
        assert page.text == "S"
        page.type("\b")
        page.write("see")
        assert page.text == "see"

    @pytest.mark.parametrize(
        ("keys", "text"),
        [
            ("ok. see", "Ok. See"),
            ("ok.see", "Ok.see"),
            ("ok... see", "Ok... see"),
            ("wait\u2026! see", "Wait\u2026! See"),
            ("ok?. see", "Ok?. see"),
            ("see  you", "See. You"),
            ("see?  you", "See? You"),
            ("see!  you", "See! You"),
            ("see, you", "See, you"),
            ("see etc. you", "See etc. you"),
            ("7  ", "7. "),
            ("   ", "   "),
        ],
    )
    def test_sentence_starts_and_two_spaces(self, page, keys, text):
        page.write(keys)
        assert page.text == text

    def test_physical_shortcuts_take_suggestions(self, page):
        from selenium.webdriver.common.keys import Keys

        for digit, place in (("1", 0), ("2", 1), ("3", 2)):
            word = page.strip()[place]
            before = page.text
            page.find("#text").send_keys(Keys.ALT, digit)
            page.settle()
            assert page.text == f"{before}{word} "

    def test_two_models_side_by_side(self, page, models):
        page.write("Are you ")
        radios = page.find_all(".model input")
        assert [radio.is_selected() for radio in radios] == [True, False]
        for card, path in zip(page.find_all(".model"), models, strict=True):
            cells = card.find_elements("css selector", ".model-strip li")
            assert [cell.text.split()[0] for cell in cells] == expected_strip(path, "Are you ")
        assert expected_strip(models[0], "Are you ") != expected_strip(models[1], "Are you ")
        page.find_all(".model label")[1].click()
        assert page.strip() == expected_strip(models[1], "Are you ")
        assert page.focused() == "text"
        page.tap(1)
        assert page.text == f"Are you {expected_strip(models[1], 'Are you ')[1]} "

    def test_a_suggestion_replaces_the_whole_word_around_the_cursor(self, page, phone):
        from selenium.webdriver.common.keys import Keys

        page.write("See you latning. Ok")
        page.type(*[Keys.ARROW_LEFT] * len("ning. Ok"))  # lat|ning
        assert page.strip() == expected_strip(phone, "See you lat", "ning. Ok")
        word = page.strip()[1]
        page.tap(1)
        assert page.text == f"See you {word} . Ok"
        page.type(Keys.BACKSPACE)
        assert page.text == "See you latning. Ok"
        page.type("e")  # the cursor is where it was
        assert page.text == "See you latening. Ok"

    def test_a_suggestion_takes_the_space_behind_the_word(self, page):
        from selenium.webdriver.common.keys import Keys

        page.write("See you lat")
        page.type(*[Keys.ARROW_LEFT] * 8)  # See| you lat
        word = page.strip()[1]
        page.tap(1)
        assert page.text == f"{word} you lat"

    def test_backspace_restores_what_a_suggestion_replaced(self, page):
        page.write("See you lat")
        page.tap(1)
        page.type("\b")
        assert page.text == "See you lat"
        assert page.counts() == (11, 13, -2)
        page.press_on_screen("backspace")
        assert page.text == "See you la"

    def test_a_space_corrects_and_backspace_takes_that_back(self, page):
        page.write("See dont")
        assert page.find("#strip .correction").text == "don't"
        page.type(" ")
        assert page.text == "See don't "
        assert page.counts()[1] == 9  # the correction is free
        page.type("\b")
        assert page.text == "See dont "
        page.type("\b")
        page.type(" ")
        assert page.text == "See dont "  # not corrected a second time

    @pytest.mark.slow
    @pytest.mark.parametrize("case", BACKSPACE_CASES, ids=lambda case: case["name"])
    def test_backspace_follows_the_table_of_the_session(self, page, case):
        from selenium.webdriver.common.keys import Keys

        for step in case["steps"]:
            if step == "{tap 3}":
                page.tap(2)
            elif step == "{shift space}":
                page.type(Keys.SHIFT, " ", Keys.NULL)
            else:
                page.write(step)
        assert page.text == case["text"]

    def test_undo_does_not_make_an_undone_correction_again(self, page):
        from selenium.webdriver.common.keys import Keys

        page.write("See dont ")
        page.type("\b")
        assert page.text == "See dont "
        for _ in range(3):
            page.type(Keys.CONTROL, "z")
            assert "don't" not in page.text

    def test_symbols_of_both_pages(self, page):
        page.press_on_screen("symbols")
        page.find('#keys [data-key="more symbols"]').click()
        expected = "%=_~<>[]\u20ac\u00a3{}^|\\"
        keys = {key.text for key in page.find_all("#keys .key")}
        assert set(expected) <= keys
        page.press_on_screen("%", "\u20ac")
        page.find('#keys [data-key="more symbols"]').click()
        page.press_on_screen("7", "letters")
        assert page.text == "%\u20ac7"
        page.press_on_screen("x")

    def test_why_less_than_nothing_was_saved(self, page):
        assert not page.find("#below-zero").is_displayed()
        page.write("See\b")
        assert page.counts()[2] < 0
        assert page.find("#below-zero").is_displayed()

    def test_undo_takes_a_suggestion_back(self, page):
        from selenium.webdriver.common.keys import Keys

        page.write("See you lat")
        page.tap(1)
        page.type(Keys.CONTROL, "z")
        assert page.text == "See you lat"

    @pytest.mark.parametrize(
        ("before", "key", "expected"), [("Hel", "p", "Help"), ("See ", "y", "See y")]
    )
    def test_a_tap_before_the_answer_to_the_last_key_breaks_nothing(
        self, page, before, key, expected
    ):
        page.write(before)
        words = page.strip()
        page.driver.execute_script(
            f"document.querySelector('#keys [data-key=\"{key}\"]').click();"
            "document.querySelectorAll('#strip button')[1].click();"
        )
        page.settle()
        # The word if it still fits what is typed, otherwise nothing.
        assert page.text in (expected, f"{words[1]} ", f"See {words[1]} ")

    def test_a_tap_behind_a_sent_message_is_for_the_new_one(self, page, phone):
        page.write("See you")
        tapped = page.strip()[1]
        page.driver.execute_script(
            "document.querySelector('#keys [data-key=send]').click();"
            "document.querySelectorAll('#strip button')[1].click();"
        )
        page.settle()
        still_offered = tapped in expected_strip(phone, "")
        assert page.text == (f"{tapped} " if still_offered else "")

    def test_backspace_repeats_while_it_is_held(self, page):
        from selenium.webdriver.common.action_chains import ActionChains

        page.write("See you")
        key = page.find('#keys [data-key="backspace"]')
        ActionChains(page.driver).click_and_hold(key).pause(1.2).release().perform()
        page.settle()
        left = page.text
        assert len(left) <= len("See you") - 3
        page.press_on_screen("backspace")  # and a tap deletes one again
        assert len(page.text) == max(0, len(left) - 1)

    def test_shift_and_layers_keep_the_focus(self, page):
        from selenium.webdriver.common.action_chains import ActionChains
        from selenium.webdriver.common.keys import Keys

        for key, focused in (("shift", "shift"), ("symbols", "letters")):
            button = page.find(f'#keys [data-key="{key}"]')
            page.driver.execute_script("arguments[0].focus()", button)
            ActionChains(page.driver).send_keys(Keys.ENTER).perform()
            assert page.focused() == focused

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

    def test_replay_types_a_text_and_shows_what_it_saves(self, page):
        target = "See you later, ok. Are you coming home?"
        page.driver.execute_script(
            "document.getElementById('replay-text').value = arguments[0]", target
        )
        page.find("#replay").click()
        page.wait("document.body.dataset.replay === 'done'", "the replay did not end")
        page.settle()
        [message] = page.find_all("#messages li")
        assert message.text.casefold() == target.casefold()
        characters, keystrokes, saved = page.counts()
        assert characters == len(target)
        assert saved == characters - keystrokes
        assert keystrokes <= len(target) + 1  # Enter, and never more than by hand

    def test_every_control_has_a_name(self, page):
        page.write("See you la")
        for control in page.find_all("button, textarea, input"):
            if control.is_displayed():
                assert control.accessible_name.strip()
        assert page.find("#strip button.best").accessible_name.endswith("middle, best suggestion")

    def test_the_strip_is_announced_when_typing_pauses(self, page, phone):
        page.write("See you la")
        left, best, right = expected_strip(phone, "See you la")
        words = ", ".join(word for word in (best, left, right) if word)
        page.wait(
            f"document.getElementById('announcer').textContent === 'Suggestions: {words}'",
            "the strip was not announced",
        )


class TestOwner:
    pytestmark = keyboard_browser.NEEDS_BROWSER

    @pytest.mark.slow
    def test_a_reload_needs_the_cookie_alone(self, page, phone):
        assert "token" not in page.driver.current_url
        assert page.driver.execute_script("return document.cookie") == ""  # not for scripts
        page.driver.refresh()
        page.settle()
        page.write("Are y")
        assert page.strip() == expected_strip(phone, "Are y")
        assert page.driver.execute_script("return document.referrer") == ""

    @pytest.mark.slow
    def test_two_keyboards_in_one_browser(self, driver, address, hybrid, phone):
        with keyboard_browser.served_here(hybrid) as other:
            first, second = (keyboard_browser.Page(driver, at) for at in (address, other))
            bare = driver.current_url
            assert second.find("#own-card").is_displayed()
            driver.back()
            first.settle()
            first.write("Are y")
            assert first.strip() == expected_strip(phone, "Are y")
            driver.get(bare)
            second.settle()
            assert second.find("#own-card").is_displayed()

    def test_who_has_no_cookie_sees_nothing(self, driver, address):
        page = keyboard_browser.Page(driver, address)
        driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
        driver.refresh()
        assert "tff-keyboard play" in page.find("body").text
        assert page.find_all("script, #text") == []
        refusals = page.errors()  # of the page, and of its icon
        assert refusals
        assert all("403" in refusal for refusal in refusals)


SCREENS = [(360, 640, True), (412, 915, True), (1280, 800, False)]


@pytest.mark.slow
class TestScreens:
    pytestmark = keyboard_browser.NEEDS_BROWSER

    @pytest.fixture(
        params=[
            pytest.param((*screen, scheme), marks=() if scheme == quick else pytest.mark.slow)
            for screen, quick in zip(SCREENS, ("dark", "", "light"), strict=True)
            for scheme in ("light", "dark")
        ]
    )
    def screen(self, request, driver, address):
        width, height, is_phone, scheme = request.param
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": is_phone})
        feature = {"name": "prefers-color-scheme", "value": scheme}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        yield keyboard_browser.Page(driver, address), is_phone, scheme
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

    def test_fits_and_is_accessible(self, screen):
        page, is_phone, scheme = screen
        page.write("see you la")
        page.tap(1)
        page.type("\n")
        page.write("are y")
        actual = page.driver.execute_script(
            """
            const box = (node) => node.getBoundingClientRect();
            const keys = [...document.querySelectorAll(".key")].map(box);
            return {
              narrowest: Math.min(...keys.map((key) => key.width)),
              bottom: Math.max(...keys.map((key) => key.bottom)),
              top: box(document.querySelector(".phone")).top,
              border: getComputedStyle(document.querySelector(".phone")).borderTopWidth,
              inputMode: document.getElementById("text").inputMode,
              sideways: document.documentElement.scrollWidth - innerWidth,
              height: innerHeight,
              tall: document.documentElement.scrollHeight,
              page: getComputedStyle(document.body).backgroundColor,
            };
            """
        )
        assert actual["tall"] <= actual["height"] or not is_phone
        assert actual["narrowest"] >= 30
        assert actual["bottom"] <= actual["height"]
        assert actual["sideways"] <= 0
        assert (actual["border"] == "0px") == is_phone
        assert (actual["top"] == 0) == is_phone
        assert actual["inputMode"] == ("none" if is_phone else "")
        brightness = [int(part) for part in actual["page"][4:-1].split(",")]
        assert (max(brightness) < 64) == (scheme == "dark")
        assert violations(page) == []
        if is_phone:  # one thing at a time
            page.find("#bar-saved").click()
            assert page.find("#saved").is_displayed()
            assert not page.find("#keys").is_displayed()
            assert violations(page) == []
            page.find(".back").click()
            assert page.find("#keys").is_displayed()


def violations(page):
    page.driver.execute_script(keyboard_browser.axe_script())
    return page.driver.execute_async_script(
        """
        const done = arguments[0];
        axe.run().then((result) => done(result.violations.map(
          (violation) => [violation.id, ...violation.nodes.map((node) => node.target.join(" "))])));
        """
    )


@pytest.mark.slow
class TestChecker:
    pytestmark = keyboard_browser.NEEDS_BROWSER

    def test_finds_a_button_without_a_name_and_faint_text(self, page):
        page.driver.execute_script(
            "document.querySelector('.send').removeAttribute('aria-label');"
            "document.querySelector('h1').style.color = '#dddddd';"
        )
        assert {found[0] for found in violations(page)} == {"button-name", "color-contrast"}


class TestOwnWords:
    pytestmark = keyboard_browser.NEEDS_BROWSER

    @pytest.fixture
    def page(self, driver, hybrid, tmp_path):
        with keyboard_browser.served_here(hybrid, cache=tmp_path / "words.cache") as address:
            yield keyboard_browser.Page(driver, address)

    def own(self, page):
        return [chip.text for chip in page.find_all("#own-words button")]

    def test_learns_what_is_sent_and_forgets_what_is_clicked(self, page, tmp_path):
        assert page.find("#own-card").is_displayed()
        page.write("see johann")
        assert not (tmp_path / "words.cache").exists()
        page.type("\n")
        page.wait("document.querySelectorAll('#own-words button').length === 1", "not learnt")
        assert self.own(page) == ["johann"]
        assert page.find_all("#own-words .waiting")  # typed once: not suggested yet
        page.write("See jo")
        assert "johann" not in page.strip()
        page.write("hann\n")
        page.wait("!document.querySelector('#own-words .waiting')", "not learnt")
        assert cache_file.load(tmp_path / "words.cache").words.keys() >= {"see", "johann"}
        page.write("See jo")
        assert "johann" in page.strip()
        page.find("#own-words button").click()
        page.wait("document.querySelectorAll('#own-words button').length === 0", "not forgotten")
        page.settle()
        assert page.strip() == ["", "", ""]
        assert b"johann" not in (tmp_path / "words.cache").read_bytes()
        page.find("#new-word").send_keys("4711\n")
        page.wait("!document.getElementById('problem').hidden", "a number is learnt")
        page.find("#new-word").clear()
        page.find("#new-word").send_keys("Zbigniew\n")
        page.wait("document.querySelectorAll('#own-words button').length === 1", "not added")
        assert self.own(page) == ["Zbigniew"]
        page.write(" Zbi")
        assert "Zbigniew" in page.strip()
        page.find("#forget-all").click()
        page.wait("document.getElementById('remembered').textContent === '0'", "not forgotten")
        assert not cache_file.load(tmp_path / "words.cache").words

    @pytest.mark.slow
    def test_nothing_is_learnt_while_the_switch_is_on(self, page, tmp_path):
        from selenium.webdriver.common.keys import Keys

        button = page.find("#private")
        assert (button.text, button.get_attribute("aria-pressed")) == ("Do not learn", "false")
        button.send_keys(Keys.ENTER)  # by the keyboard
        assert button.get_attribute("aria-pressed") == "true"
        assert "not learned" in page.find("#text").get_attribute("placeholder")
        page.write("see johann\n")
        page.driver.refresh()
        page.settle()
        assert page.find("#private").get_attribute("aria-pressed") == "true"  # in this tab
        page.write("see johann\n")
        page.find("#private").click()
        assert page.find("#private").get_attribute("aria-pressed") == "false"
        assert not (tmp_path / "words.cache").exists()
        page.write("see anna\n")
        page.wait("document.querySelectorAll('#own-words button').length === 1", "not learnt")
        assert self.own(page) == ["anna"]

    @pytest.mark.slow
    @pytest.mark.parametrize("answer", ["new Promise(() => {})", "Promise.reject(Error('busy'))"])
    def test_the_switch_holds_before_the_server_answers_and_without(self, page, tmp_path, answer):
        page.find("#private").click()
        script = page.driver.execute_cdp_cmd(
            "Page.addScriptToEvaluateOnNewDocument",
            {
                "source": "const real = window.fetch; window.fetch = (path, wish) =>"
                f" path === 'api/words' ? {answer} : real(path, wish)"
            },
        )
        try:
            page.driver.refresh()
            page.write("see johann\n")
        finally:
            page.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)
        assert page.find("#private").get_attribute("aria-pressed") == "true"
        assert page.find("#private").is_displayed() == ("busy" in answer)
        page.driver.refresh()
        page.settle()
        page.find("#private").click()
        assert not (tmp_path / "words.cache").exists()

    @pytest.mark.slow
    def test_punctuation_corrects_as_a_space_does(self, page):
        page.write("See dont!")
        assert page.text == "See don't!"
        page.type("\b")
        assert page.text == "See dont!"
        page.write("\b ")
        assert page.text == "See dont "  # not a second time
        page.write("\n")
        page.press_on_screen("c", "a", "n", "t", "comma")
        assert page.text == "Can't,"
        page.write(" i wont.\n")
        sent = [message.text for message in page.find_all("#messages li")]
        assert sent == ["See dont", "Can't, I won't."]

    @pytest.mark.slow
    @pytest.mark.parametrize("emoji", ["👍", "👍🏽", "❤️", "🇩🇪"])
    def test_an_emoji_corrects_as_a_space_does(self, page, emoji):
        page.write("See dont")
        page.driver.execute_cdp_cmd("Input.insertText", {"text": emoji})
        page.settle()
        assert page.text == f"See don't{emoji}"
        page.type("\b")
        assert page.text == f"See dont{emoji}"

    @pytest.mark.slow
    def test_word_of_an_address_is_not_corrected(self, page):
        page.write("See dont.")
        assert page.text == "See don't."
        page.write("com")
        assert page.text == "See dont.com"
        page.write("\n")
        page.press_on_screen("c", "a", "n", "t", "full stop", "c", "o")
        assert page.text == "Cant.co"
        page.write("\n")
        page.write("dont. so i. see i.e. me\n")
        sent = [message.text for message in page.find_all("#messages li")]
        assert sent == ["See dont.com", "Cant.co", "Don't. So I. See i.e. me"]

    @pytest.mark.slow
    def test_enter_corrects_and_backspace_brings_the_message_back(self, page, tmp_path):
        page.write("See dont\n")
        assert [sent.text for sent in page.find_all("#messages li")] == ["See don't"]
        assert not (tmp_path / "words.cache").exists()  # it may be taken back
        page.type("\b")
        assert page.text == "See dont"
        assert page.find_all("#messages li") == []
        characters, keystrokes, _ = page.counts()
        assert (characters, keystrokes) == (8, 10)
        page.type("\n")
        page.wait("document.getElementById('remembered').textContent === '2'", "not learnt")
        assert [sent.text for sent in page.find_all("#messages li")] == ["See dont"]
        assert cache_file.load(tmp_path / "words.cache").exempt_words == {"dont"}
        page.write("dont")
        assert page.find_all("#strip .correction") == []
        page.write("\b" * 4)
        page.write("See cant")
        page.find(".send").click()
        page.settle()
        page.type("o")  # from now on it is sent for good
        page.wait("document.getElementById('remembered').textContent === '3'", "not learnt")
        assert "can't" in cache_file.load(tmp_path / "words.cache").words

    @pytest.mark.slow
    def test_is_accessible(self, page):
        assert violations(page) == []
        page.find("#private").click()
        assert violations(page) == []


class TestTouches:
    pytestmark = keyboard_browser.NEEDS_BROWSER

    @pytest.fixture
    def touches(self, driver):
        """Returns the function that reads the touches of the word at the cursor."""
        script = """
            const done = arguments[0];
            import(new URL("touches.js", location.href).href).then(
                (touches) => done(touches.touchesOf(document.getElementById("text").value)));
        """
        return lambda: driver.execute_async_script(script)

    def test_of_keys_on_the_screen(self, page, touches):
        assert touches() is None
        page.press_on_screen("s", "e")
        # A row of ten keys, and one of nine in its middle; the keys are touched in theirs.
        assert touches() == [pytest.approx([2.0, 1.5], abs=0.1), pytest.approx([2.5, 0.5], abs=0.1)]
        page.type("y")
        assert touches()[2] is None
        page.type("\b")
        page.press_on_screen("space", "o")
        assert touches() == [pytest.approx([8.5, 0.5], abs=0.1)]
        page.type("\b", "k")
        assert touches() is None
        page.press_on_screen("space", "s", "e")
        page.type("\b", "e")  # the same letter by a physical key
        assert touches() is None
        page.find("#text").clear()
        page.type("y")
        page.find("#text").clear()
        page.press_on_screen("s", "e")
        page.press_on_screen("send")
        page.type("s", "e")
        assert touches() is None

    def test_a_touch_beside_the_centre(self, page, driver, touches):
        from selenium.webdriver import ActionChains

        key = page.find('#keys [data-key="e"]')
        right, down = 0.3 * key.size["width"], 0.25 * key.size["height"]
        move = ActionChains(driver).move_to_element_with_offset(key, round(right), round(down))
        move.click().perform()
        page.settle()
        assert touches() == [pytest.approx([2.8, 0.75], abs=0.1)]


@pytest.mark.slow
class TestEvents:
    """Events of a process of its own, which is ended by Ctrl-C."""

    pytestmark = keyboard_browser.NEEDS_BROWSER

    def test_counts_what_became_of_each_strip(self, driver, models, tmp_path):
        log = tmp_path / "me.json"
        with keyboard_browser.served(*models, f"--events={log}") as address:
            page = keyboard_browser.Page(driver, address)
            page.write("see yo")
            page.tap(1)
            page.type("\ue003")  # Backspace takes it back
            page.tap(1)
            page.type("\n")
            page.write("ok")
            page.find("#restart").click()
            page.settle()
            for _ in range(event_log.MIN_MESSAGES - 2):
                assert not log.exists()
                page.write("ok")
                page.type("\n")
            deadline = time.monotonic() + keyboard_browser.SECONDS
            while not log.exists():
                assert time.monotonic() < deadline
                time.sleep(0.02)
        ((model, entry),) = event_log.read(log).models.items()
        assert model == hashlib.sha256(models[0].read_bytes()).hexdigest()[:12]
        assert entry.messages == event_log.MIN_MESSAGES
        expected = {
            "strips": 10 + 9 * 3,
            "accepted": 2,
            "deleted": 1,
            "accepted_at_1": 2,
            "next_word_strips": 4 + 9,  # twice after the accepted word
            "zero_state_strips": 10,
        }
        assert {name: entry.counts[name] for name in expected} == expected
        # The server may have ended before it answered what it has counted.
        assert [line for line in page.errors() if "ERR_EMPTY_RESPONSE" not in line] == []


def type_in_terminal(monkeypatch, typed, model, *flags):
    """Runs `play --terminal` with keys from a pipe, and returns its exit code."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    return cli.launch(play_task, [str(model), "--terminal", *flags])


@pytest.mark.slow
def test_a_damaged_cache_is_one_line_and_a_fresh_one(hybrid, tmp_path, monkeypatch, capsys):
    cache = tmp_path / "words.cache"
    cache.write_text("no cache")
    assert (
        type_in_terminal(monkeypatch, "see johann\n", hybrid, f"--cache={cache}") == cli.BAD_INPUT
    )
    assert f"error: {cache}: not a word cache" in capsys.readouterr().err
    assert cache.read_text() == "no cache"
    cache.write_text(f"{cache_file.FORMAT}\n{{")
    assert type_in_terminal(monkeypatch, "see johann\n", hybrid, f"--cache={cache}") == cli.OK
    errors = capsys.readouterr().err.splitlines()
    warnings = [line for line in errors if line.startswith("warning: ")]
    assert len(warnings) == 1
    assert str(cache) in warnings[0]
    assert "johann" in cache_file.load(cache).words
    assert cache.stat().st_mode & 0o777 == 0o600


def check_terminal(shown, phone):
    word = expected_strip(phone, "see you lat")[1]
    assert f"> see you {word} " in shown
    characters = len(f"see you {word}")
    assert f"13 keystrokes for {characters} characters" in shown


@pytest.mark.slow
def test_terminal_reads_keys_from_a_pipe(phone, monkeypatch, capsys):
    assert type_in_terminal(monkeypatch, "see you lat\t\n", phone) == cli.OK
    check_terminal(capsys.readouterr().out, phone)


def test_the_end_says_which_messages_the_log_lacks(phone, tmp_path, monkeypatch, capsys):
    log = tmp_path / "me.json"
    assert type_in_terminal(monkeypatch, "see you\n" * 3, phone, f"--events={log}") == cli.OK
    assert "not in the log: 3." in capsys.readouterr().err
    assert not log.exists()
    assert type_in_terminal(monkeypatch, "see you\n" * 10, phone, f"--events={log}") == cli.OK
    assert "--events" not in capsys.readouterr().err
    assert event_log.read(log).vector()[0] > 0


@pytest.mark.slow
def test_terminal_in_a_process_of_its_own(phone):
    done = subprocess.run(
        play(phone, "--terminal"),
        input="see you lat\t\n",
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=600,
        check=True,
    )
    check_terminal(done.stdout, phone)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "Pass one to three .tflite files; got 0 arguments."),
        (("a", "b", "c", "d"), 2, "Pass one to three .tflite files; got 4 arguments."),
    ],
)
def test_errors_are_one_line(arguments, code, message, capsys):
    assert cli.launch(play_task, arguments) == code
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1
