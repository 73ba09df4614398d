"""Files of prompts, and strips that pass or fail them."""

import pytest

from tff_keyboard.data.vocabulary import SPECIAL_WORDS, NormalisationRules, Vocabulary
from tff_keyboard.evaluation.results.golden_prompts import check_prompts, read_prompts
from tff_keyboard.storage.errors import CheckFailed, DataError


class Scripted:
    """A predictor with fixed suggestions that records its calls."""

    def __init__(self, strips):
        self.vocabulary = Vocabulary((*SPECIAL_WORDS, "see", "you"), NormalisationRules())
        self.strips = strips
        self.asked = []

    def suggest(self, context, prefix="", k=3):
        self.asked.append((list(context), prefix, k))
        return [(word, 0.1) for word in self.strips[len(self.asked) - 1]]


def file(folder, text):
    path = folder / "prompts.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_each_prompt_is_split_as_typed(tmp_path):
    path = file(
        tmp_path,
        "# team A\n\nSee you \tsoon later\nSee you to\ttomorrow !toad\r\n\t!damn\n",
    )
    model = Scripted([["later", "a", "b"], ["today", "tomorrow", "toad"], ["damn", "i", "ok"]])
    prompts = read_prompts(path)
    report = check_prompts(model, prompts)
    assert model.asked == [(["see", "you"], "", 3), (["see", "you"], "to", 3), ([], "", 3)]
    assert [(prompt.line, what) for prompt, what in report.failures] == [
        (4, "an unwanted word is on the strip"),
        (5, "an unwanted word is on the strip"),
    ]
    assert f"{path}:4:" in report.table()
    assert "1 of 3 passed" in report.table()
    with pytest.raises(CheckFailed, match=r"new fails 2 of 3 golden prompts .*\(line 4, 5\)"):
        report.check("new")


def test_none_of_the_wanted_words_is_a_failure(tmp_path):
    prompts = read_prompts(file(tmp_path, "see you \tsoon later\n"))
    report = check_prompts(Scripted([["i", "a", "ok"]]), prompts)
    assert report.failures[0][1] == "none of the wanted words is on the strip"
    check_prompts(Scripted([["i", "a", "soon"]]), prompts).check("new")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no prompts"),
        ("# only a remark\n", "has no prompts"),
        ("see you later\n", "prompts.txt:1: a prompt must"),
        ("a\tb\nsee you \t\n", "prompts.txt:2: a prompt must"),
        ("see you \t!\n", "prompts.txt:1: a prompt must"),
        (b"\xff\tb\n", "cannot be read as prompts"),
        (b"a\tb\n" * 300_000, "more than 1,000,000 bytes"),
    ],
)
def test_another_kind_of_file_is_refused(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        read_prompts(file(tmp_path, text))


def test_a_file_that_is_missing_is_one_line(tmp_path):
    with pytest.raises(DataError, match=r"none.txt: cannot be read as prompts \(No such file"):
        read_prompts(tmp_path / "none.txt")
