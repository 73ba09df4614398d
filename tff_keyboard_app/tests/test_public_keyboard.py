"""The public names of `tff_keyboard_app`, and the example of the install page."""

import ast
import pathlib
import re
import subprocess
import sys

import pytest

import tff_keyboard as tk
import tff_keyboard_app

ROOT = pathlib.Path(tk.__file__).parents[1]
PAGE = ROOT / "docs" / "phone" / "install.md"
BASE = ROOT / "models" / "base" / "keyboard.tflite"


def example(name):
    """The lines of Python on the page that make `name`, and what their comments promise."""
    (code,) = re.findall(
        rf"((?:^    .*\n|^\n)*^    {name} = .*\n(?:^    .*\n|^\n)*)", PAGE.read_text(), re.M
    )
    lines = [line.removeprefix("    ") for line in code.splitlines()]
    promised = [re.fullmatch(r"(\S.*\S)  # (.*)", line) for line in lines]
    return "\n".join(lines), {match[1]: match[2] for match in promised if match}


@pytest.mark.parametrize(("name", "count"), [("keyboard", 2), ("both", 1)])
def test_the_examples_of_the_install_page_give_what_they_say(monkeypatch, name, count):
    monkeypatch.chdir(ROOT)
    code, promised = example(name)
    values = {}
    exec(code, values)
    assert len(promised) == count
    for expression, value in promised.items():
        assert eval(expression, values) == ast.literal_eval(value)


def test_the_door_opens_without_tensorflow():
    script = (
        "import sys; before = set(sys.modules); import tff_keyboard_app as app\n"
        "loaded = {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "assert not loaded - set(sys.stdlib_module_names) - {'tff_keyboard', 'tff_keyboard_app'}\n"
        "sys.modules['tensorflow'] = None\n"
        "print(app.AppKeyboard, app.TypingSession, app.KeyboardStrip, app.Slot)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, cwd=ROOT)


def test_names_of_other_modules_are_refused():
    assert set(dir(tff_keyboard_app)) == set(tff_keyboard_app.__all__)
    with pytest.raises(AttributeError, match="module 'tff_keyboard_app' has no public name 'x'"):
        _ = tff_keyboard_app.x


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(ValueError, match=r"keyboard\.tflite") as error:
        tff_keyboard_app.AppKeyboard.open(tmp_path / "keyboard.tflite")
    assert "\n" not in str(error.value)


def test_words_are_the_strip_with_the_best_first():
    strip = tff_keyboard_app.AppKeyboard.open(BASE, emoji=False).keyboard_strip("see you tomo")
    first, second, third = strip.words
    assert (second, first, third) == tuple(slot.word for slot in strip.slots)
    assert tff_keyboard_app.KeyboardStrip((None, None, None), 0.0).words == ()
