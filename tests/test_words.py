"""Pages stay short enough to be read: words a page, words in all, and lines that fit a screen.

Tutorials count with their prose.
"""

import pathlib
import re

import pytest

from tools import tutorials

ROOT = pathlib.Path(__file__).parent.parent
MOST_WORDS = 30_000
MOST_CHARACTERS = 100  # in a line of prose
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
TUTORIALS = sorted(tutorials.FOLDER.glob("*.py"))
# Words that a page may have; a page that gets shorter keeps its budget until somebody lowers it.
BUDGETS = {
    "CHANGELOG.md": 300,
    "CONTRIBUTING.md": 670,
    "README.md": 665,
    "docs/aggregation.md": 360,
    "docs/architecture.md": 785,
    "docs/attacks.md": 865,
    "docs/cluster.md": 720,
    "docs/configs.md": 720,
    "docs/data.md": 900,
    "docs/evaluation.md": 1290,
    "docs/phone/aosp.md": 355,
    "docs/fleet/threat_model.md": 460,
    "docs/fleet/protocol.md": 530,
    "docs/phone/export.md": 1265,
    "docs/fine_tuning.md": 580,
    "docs/fleet/README.md": 365,
    "docs/phone/install.md": 170,
    "docs/phone/keyboard.md": 640,
    "docs/phone/languages.md": 405,
    "docs/phone/integrate.md": 1365,
    "docs/library.md": 390,
    "docs/model.md": 350,
    "docs/models/base.md": 705,
    "docs/models/blogs.md": 335,
    "docs/models/messages.md": 305,
    "docs/models/nus_sms.md": 290,
    "docs/models/personalised.md": 310,
    "docs/models/persuasion.md": 250,
    "docs/models/ubuntu_irc.md": 355,
    "docs/models/unseen.md": 240,
    "docs/papers/README.md": 1300,
    "docs/papers/fedatt.md": 1420,
    "docs/papers/fedmed.md": 890,
    "docs/papers/gboard.md": 930,
    "docs/papers/popov.md": 1030,
    "docs/performance.md": 470,
    "docs/port.md": 280,
    "docs/privacy.md": 1850,
    "docs/privacy/private_fedatt.md": 760,
    "docs/cluster/program.md": 480,
    "docs/results.md": 1500,
    "docs/studies.md": 660,
    "docs/privacy/tail_audit.md": 690,
    "docs/tutorials/fedatt_in_your_tff_code.py": 250,
    "docs/tutorials/from_tflite_to_an_android_strip.py": 220,
    "docs/tutorials/keyboard_from_your_messages.py": 230,
    "docs/tutorials/private_training.py": 260,
    "docs/tutorials/read_an_evaluation.py": 280,
    "docs/tutorials/write_a_rule.py": 280,
}


def name(page):
    return str(page.relative_to(ROOT))


def words(page):
    """As `wc -w` counts them; of a tutorial those of its prose."""
    text = page.read_text()
    if page in TUTORIALS:
        text = " ".join(cell.text for cell in tutorials.cells(text) if cell.is_prose)
    return len(text.split())


def long_lines(text):
    """Numbers of lines of prose that do not fit; tables, commands and links may be longer."""
    found, is_code = [], False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        is_prose = not is_code and not re.match(r" {4}|\s*\||#", line) and "](" not in line
        if is_prose and len(line) > MOST_CHARACTERS and "://" not in line:
            found.append(number)
    return found


@pytest.mark.parametrize("page", PAGES + TUTORIALS, ids=name)
def test_a_page_has_a_budget_and_keeps_it(page):
    assert words(page) <= BUDGETS.get(name(page), 0)


def test_all_pages_together():
    assert sum(map(words, PAGES + TUTORIALS)) <= MOST_WORDS


def test_pages_of_the_table_are_there():
    assert not BUDGETS.keys() - set(map(name, PAGES + TUTORIALS))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_lines_fit_a_screen(page):
    assert not long_lines(page.read_text())


def test_a_long_line_is_found():
    long = "word " * 30
    text = f"{long}\n| {long} |\n    {long}\n```\n{long}\n```\n[{long}](x.md)\n{long}"
    assert long_lines(text) == [1, 8]
