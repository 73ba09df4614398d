"""Runs Kebbie's oracle over one contestant, in the Python of the benchmark.

`open_benchmark.py` starts this file with a job, a JSON file. It needs the package `kebbie`, and
nothing of this project. The oracle makes the slips and counts; a contestant only answers:

- "keyboard" asks `open_benchmark.py`, through two pipes;
- "jamspell" corrects with a model that `--train` of this file trained on the same text;
- "symspellpy" and "hunspell" correct words without their context, with their own dictionaries;
- "presage" suggests and completes, and never corrects.

A corrector applies its first candidate to every word that it finds wrong. Kebbie takes the text
before the word as it was meant.
"""

import argparse
import json
import os
import pathlib
import subprocess
import time
from importlib import import_module

_APOSTROPHE = "'"
_MOST_EDITS = 2
_CONTEXT_OF_JAMSPELL = 4  # words; its model has trigrams
_ALPHABET = "abcdefghijklmnopqrstuvwxyz'"


def in_case_of(typed, word):
    """Returns a word in small letters with the capitals of the typed one."""
    if len(typed) > 1 and typed.isupper():
        return word.upper()
    return word[:1].upper() + word[1:] if typed[:1].isupper() else word


def by_piece(candidates_of, context, typed):
    """Corrects each piece of a typed string, from left to right, as its space would.

    Args:
      candidates_of: `(words before, piece)` -> candidates, best first; empty for a right word.
      context: Text before the string.
      typed: The string, which has a space inside if the typist hit it.

    Returns:
      Strings for the whole, best first, at most four and the one typed.
    """
    before, pieces = context.split(), typed.split()
    corrected: list[str] = []
    for piece in pieces[:-1]:
        corrected.append((candidates_of(before + corrected, piece) or [piece])[0])
    last = pieces[-1] if pieces else typed
    words = dict.fromkeys([*candidates_of(before + corrected, last)[:4], last])
    return [" ".join([*corrected, word]) for word in words]


class Program:
    """A program that reads lines and answers with lines."""

    def __init__(self, command, environment=None):
        self._running = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env=environment,
        )
        assert self._running.stdin is not None
        assert self._running.stdout is not None
        self.prompts, self.answers = self._running.stdin, self._running.stdout


class JamSpell:
    """N-grams in context, case as typed."""

    def __init__(self, job):
        self._model = import_module("jamspell").TSpellCorrector()
        if not self._model.LoadLangModel(job["jamspell_model"]):
            raise SystemExit(f"{job['jamspell_model']}: not a model of JamSpell.")

    def candidates(self, before, piece):
        if not set(piece.lower()) <= set(_ALPHABET):
            return [piece]
        words = [word.lower() for word in [*before[-_CONTEXT_OF_JAMSPELL:], piece]]
        best = self._model.GetCandidates(words, len(words) - 1)
        return [piece if word == words[-1] else in_case_of(piece, word) for word in best]


class SymSpell:
    """The dictionary of frequencies of symspellpy, edits up to two."""

    def __init__(self, job):
        self._package = import_module("symspellpy")
        folder = pathlib.Path(str(self._package.__file__)).parent
        self._checker = self._package.SymSpell(max_dictionary_edit_distance=_MOST_EDITS)
        self._checker.load_dictionary(
            str(folder / "frequency_dictionary_en_82_765.txt"), term_index=0, count_index=1
        )

    def candidates(self, before, piece):
        if not piece.replace(_APOSTROPHE, "").isalpha():
            return [piece]
        closest = self._package.Verbosity.CLOSEST
        best = self._checker.lookup(piece.lower(), closest, max_edit_distance=_MOST_EDITS)
        return [in_case_of(piece, suggestion.term) for suggestion in best]


class Hunspell:
    """The program, with the dictionary en_US."""

    def __init__(self, job):
        self._program = Program(["hunspell", "-a", "-i", "utf-8", "-d", "en_US"])
        self._program.answers.readline()  # its version

    def candidates(self, before, piece):
        self._program.prompts.write(f"^{piece}\n")
        answers = iter(self._program.answers.readline, "\n")
        suggestions = [answer.partition(": ")[2].strip() for answer in answers if answer[0] == "&"]
        return suggestions[0].split(", ") if len(suggestions) == 1 else [piece]


class Correcting:
    """A contestant that corrects words and suggests none."""

    def __init__(self, contestant):
        self._contestant = contestant

    def answer(self, task, context, keystrokes, word):
        if task == "correct":
            return by_piece(self._contestant.candidates, context, word)
        return []


class Presage:
    """Debian's presage, through the program of `presage_strips.cc`."""

    def __init__(self, job):
        environment = {"HOME": job["home"], "LANG": "C.UTF-8"}
        self._program = Program([job["presage_program"]], environment)

    def answer(self, task, context, keystrokes, word):
        if task == "correct":
            return []
        self._program.prompts.write(f"{context}{word}\n")
        return self._program.answers.readline().rstrip("\n").split("\t")


class Keyboard:
    """The keyboard, in the process of `open_benchmark.py`."""

    def __init__(self, job):
        self._questions = os.fdopen(job["questions"], "w", buffering=1)
        self._answers = os.fdopen(job["answers"])
        width, height, *_ = import_module("kebbie.layout").LayoutHelper("en-US").get_key_info("q")
        self._key = width, height

    def answer(self, task, context, keystrokes, word):
        """Asks with touches in widths and heights of a key, None where the layer has no key."""
        width, height = self._key
        touches = [stroke and (stroke[0] / width, stroke[1] / height) for stroke in keystrokes]
        question = {"task": task, "context": context, "word": word, "touches": touches}
        self._questions.write(json.dumps(question) + "\n")
        return json.loads(self._answers.readline())


CONTESTANTS = {
    "keyboard": Keyboard,
    "jamspell": lambda job: Correcting(JamSpell(job)),
    "symspellpy": lambda job: Correcting(SymSpell(job)),
    "hunspell": lambda job: Correcting(Hunspell(job)),
    "presage": Presage,
}


def corrector(job):
    """Returns a corrector of Kebbie, which opens its contestant when it is first asked."""
    kebbie = import_module("kebbie")

    def timed(self, task, context, keystrokes, word):
        # Kebbie's own profile traces the memory of Python, which slows Python down.
        if self.contestant is None:
            self.contestant = CONTESTANTS[job["contestant"]](job)
        start = time.perf_counter_ns()
        words = self.contestant.answer(task, context, keystrokes, word)
        return words, -1, time.perf_counter_ns() - start

    members: dict = {
        "contestant": None,
        "profiled_auto_correct": lambda self, c, k, w: timed(self, "correct", c, k, w),
        "profiled_auto_complete": lambda self, c, k, w: timed(self, "complete", c, k, w),
        "profiled_predict_next_word": lambda self, c: timed(self, "next", c, [], ""),
        "profiled_resolve_swipe": lambda self, c, gesture: ([], -1, -1),
        "__reduce__": lambda self: (corrector, (job,)),  # the oracle sends it to its process
    }
    return type("Contestant", (kebbie.Corrector,), members)()


def train(text, model):
    """Trains JamSpell's model; writes `model` and `model`.spell."""
    alphabet = pathlib.Path(f"{model}.alphabet")
    alphabet.write_text(_ALPHABET)
    if not import_module("jamspell").TSpellCorrector().TrainLangModel(text, str(alphabet), model):
        raise SystemExit(f"{text}: JamSpell could not train on it.")


def main():
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--job", type=pathlib.Path)
    parser.add_argument("--train", nargs=2, metavar=("TEXT", "MODEL"), help="train JamSpell")
    flags = parser.parse_args()
    if flags.train:
        train(*flags.train)
        return
    job = json.loads(flags.job.read_text())
    results = import_module("kebbie").evaluate(
        corrector(job), dataset=job["lines"], n_proc=1, seed=job["seed"], beta=job["beta"]
    )
    pathlib.Path(job["out"]).write_text(json.dumps(results))


if __name__ == "__main__":
    main()
