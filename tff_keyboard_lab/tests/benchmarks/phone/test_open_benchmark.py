"""Lines, answers and figures of the open benchmark, with a package `kebbie` made for the test."""

import dataclasses
import gzip
import sys

import pytest

from tff_keyboard_app.keyboard.typing_session import KeyboardStrip, Slot
from tff_keyboard_lab.benchmarks.phone import open_benchmark, open_benchmark_peers
from tff_keyboard_lab.tools import halves

KEBBIE = """
class Corrector: pass

def evaluate(corrector, dataset, n_proc, seed, beta):
    corrector = type(corrector).__reduce__(corrector)[0](*corrector.__reduce__()[1])
    (domain, lines), = dataset.items()
    words, memory, nanoseconds = corrector.profiled_auto_correct(
        lines[0] + " ", [(16.0, 36.0), None], "a-")
    return {"words": words, "memory": memory, "seed": seed, "is_timed": nanoseconds > 0}
"""
LAYOUT = """
class LayoutHelper:
    def __init__(self, language): pass
    def get_key_info(self, key): return 32, 72, 16, 36, 0
"""


@pytest.fixture(name="kebbie")
def _kebbie(tmp_path, monkeypatch):
    (tmp_path / "kebbie").mkdir()
    (tmp_path / "kebbie/__init__.py").write_text(KEBBIE)
    (tmp_path / "kebbie/layout.py").write_text(LAYOUT)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def job(contestant="keyboard"):
    return {"contestant": contestant, "lines": {"d": ["see"]}, "typos": {}, "seed": 7, "beta": 0.9}


@pytest.mark.usefixtures("kebbie")
def test_the_keyboard_answers_the_oracle_of_another_process():
    questions = []

    def respond(question):
        questions.append(question)
        return ["at", "as"]

    results, seconds = open_benchmark.run_oracle(sys.executable, job(), respond)
    assert results == {"words": ["at", "as"], "memory": -1, "seed": 7, "is_timed": True}
    # touches in widths and heights of a key
    touches = [[0.5, 0.5], None]
    assert questions == [{"task": "correct", "context": "see ", "word": "a-", "touches": touches}]
    assert len(seconds) == 1


@pytest.mark.usefixtures("kebbie")
def test_a_contestant_that_cannot_run_ends_the_benchmark():
    with pytest.raises(SystemExit, match="status 1"):
        open_benchmark.run_oracle(sys.executable, job("jamspell") | {"jamspell_model": "none"})


@dataclasses.dataclass
class FakeKeyboard:
    """Corrects "teh", offers "tea", and changes "your" before "going"."""

    asked: list = dataclasses.field(default_factory=list)

    def keyboard_strip(self, text, touches=None):
        self.asked.append((text, touches))
        if text.endswith("teh"):
            the = Slot("the", 0.9, 3, "the ")
            return KeyboardStrip((Slot("tea", 0.1, 3, "tea "), the, None), 0.0, the)
        if text.endswith("your going"):
            you_are = Slot("you're going", 0.9, 10, "you're going ")
            return KeyboardStrip((None, you_are, None), 0.0, you_are)
        return KeyboardStrip((None, None, None), 0.0)


def question(context, word, task="correct", touches=()):
    return {"task": task, "context": context, "word": word, "touches": list(touches)}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (question("in ", "teh"), ["the", "tea"]),
        (question("in ", "all"), ["all"]),
        (question("is your ", "going"), ["going"]),
        (question("in ", "teh", "complete"), ["the", "tea"]),
        (question("in ", "", "next"), []),
    ],
)
def test_corrections_are_what_a_space_makes_and_then_what_the_strip_offers(asked, words):
    assert open_benchmark.answer(FakeKeyboard(), asked) == words


def test_each_space_inside_corrects():
    keyboard, touches = FakeKeyboard(), [(x, 0.5) for x in range(7)]
    asked = question("in ", "teh teh", touches=touches)
    assert open_benchmark.answer(keyboard, asked) == ["the the", "the tea"]
    assert keyboard.asked == [("in teh", None), ("in the teh", None)]
    keyboard.asked.clear()
    open_benchmark.answer(keyboard, asked, with_touches=True)
    assert keyboard.asked == [("in teh", touches[:3]), ("in the teh", touches[4:])]


def test_strings_of_peers_are_corrected_piece_by_piece():
    def candidates(before, piece):
        return {"teh": ["the", "tea"], "wodr": before[-1:]}.get(piece, [])

    answer = open_benchmark_peers.by_piece(candidates, "in ", "teh wodr")
    assert answer == ["the the", "the wodr"]
    assert open_benchmark_peers.by_piece(candidates, "", "all") == ["all"]


@pytest.mark.parametrize(
    ("typed", "cased"), [("teh", "the"), ("Teh", "The"), ("TEH", "THE"), ("I", "The")]
)
def test_peers_keep_the_capitals(typed, cased):
    assert open_benchmark_peers.in_case_of(typed, "the") == cased


@pytest.mark.parametrize(
    ("lines", "is_writer"),
    [
        (["I don't know", "I’m here"], True),
        (["I don't know", "i am here"], False),
        (["I dont know"], False),
        (["I know"], False),  # nothing shows that apostrophes are written
        (["don't go"], False),
    ],
)
def test_writers(lines, is_writer):
    assert open_benchmark.is_writer(lines) == is_writer


def test_lines_are_of_held_out_clients_of_a_half(tmp_path):
    path = tmp_path / "chat.tsv.gz"
    clients = [f"c{number}" for number in range(200)]
    with gzip.open(path, "wt") as file:
        for client in clients:
            file.write(f"{client}\t{client} I don't know\n{client}\tsee <URL> now\n{client}\tok\n")
    domains = open_benchmark.lines_of(path, "test", 1_000)
    expected = {
        f"{client} I don't know"
        for client in clients
        if halves.is_held_out(f"chat:{client}") and halves.is_in(client, "test")
    }
    assert expected
    assert set(domains["chat, all"]) == set(domains["chat, writers"]) == expected
    text = tmp_path / "train.txt"
    open_benchmark.write_training_text([path], text)
    trained = text.read_text().splitlines()
    assert len(trained) == 3 * sum(not halves.is_held_out(f"chat:{x}") for x in clients)
    assert not expected & {line.removesuffix(" .") for line in trained}


def test_figures_are_means_over_seeds():
    kinds = {"DELETE_CHAR": {"recall": 0.5, "top3_recall": 0.75, "n_typo": 10}}
    none = {"ADD_SPACE": {"recall": 0.0, "top3_recall": 0.0, "n_typo": 0}}
    other = {"DELETE_CHAR": {"recall": 0.8, "top3_recall": 0.9, "n_typo": 20}}
    runs = [{"auto_correction": {"per_typo_type": one | none}} for one in (kinds, other)]
    recall = open_benchmark.kinds_of(runs)
    assert recall == {
        "DELETE_CHAR": {
            "first": pytest.approx(0.7),
            "among three": pytest.approx(0.85),
            "slips": 30,
        }
    }
    assert open_benchmark.mean_of([{"F": 0.8}, {"F": 0.9}]) == {"F": pytest.approx(0.85)}
