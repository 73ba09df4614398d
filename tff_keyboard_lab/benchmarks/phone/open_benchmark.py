"""Runs Kebbie, an open benchmark of keyboards, with the keyboard and with open spelling programs.

python -m tff_keyboard_lab.benchmarks.phone.open_benchmark --kebbie-python=kebbie_env/bin/python \
    --text=chitchat.tsv.gz --text=persuasion_for_good/by_user.tsv.gz --phrases=phrases2.txt \
    --misspellings=wikipedia.tsv --seed=1 --seed=2 --seed=3 --out=kebbie.json

`--text` is `client<TAB>text`. The lines are of clients of the test half (`tools/halves.py`) that
`prepare` holds out under the name that `tools/select_text.py` gives them, at most ten of each. The
texts count twice: all clients, and those who write "I" and apostrophes, because Kebbie takes the
text as it was typed for the truth. Lines of `--phrases` are taken as they are.

Kebbie makes slips: touches around the centre of each key, letters left out, doubled and swapped,
capitals and apostrophes left out, missing spaces, and common misspellings. It downloads those; here
they are the half of `--misspellings` (lines `typed<TAB>meant`) that costs were not learned on.

`--train` writes the text for JamSpell, of the same clients of all `--train-text`, and trains its
model. The Python of `--kebbie-python` has the packages of the peers:

    python -m venv kebbie_env
    kebbie_env/bin/pip install kebbie==0.5.1 "pyarrow<20" "pandas<3" symspellpy swig setuptools
    pip download --no-deps --no-binary=:all: --no-build-isolation jamspell==0.0.12; tar xf ...
    sed -i "s/SWIG Version 3/SWIG Version/" setup.py; sed -i s/en_US/C/ jamspell/utils.cpp
    PATH=kebbie_env/bin:$PATH kebbie_env/bin/pip install --no-build-isolation .

The second change is for a machine without the locale en_US. Debian: hunspell, hunspell-en-us;
presage as in `presage.py`.
"""

import argparse
import contextlib
import functools
import gzip
import json
import os
import pathlib
import random
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from tff_keyboard_app.keyboard import spelling
from tff_keyboard_app.keyboard.strip import AppKeyboard
from tff_keyboard_app.keyboard.touches import Touch
from tff_keyboard_app.keyboard.truecase import Truecase
from tff_keyboard_app.keyboard.typing_session import KeyboardStrip
from tff_keyboard_lab.benchmarks.phone import presage
from tff_keyboard_lab.benchmarks.phone.spelling import BASE
from tff_keyboard_lab.tools import halves
from tflite_export.runtime.hybrid_keyboard import open_keyboard

TOUCHED = "keyboard, touches"
PEERS = ("keyboard", TOUCHED, "jamspell", "symspellpy", "hunspell", "presage")
SCRIPT = pathlib.Path(__file__).with_name("open_benchmark_peers.py")
_BETA = 0.9  # of the F score: precision counts more, as in Kebbie's own figures
_LINES_OF_CLIENT = 10
_MIN_WORDS = 3
_CARELESS = 0.05  # largest share of "i" and "dont" of a writer who writes "I" and "don't"


def corpus_name(path: pathlib.Path) -> str:
    """Returns the name of a corpus: "chitchat" of chitchat.tsv.gz, the folder of by_user.tsv.gz."""
    name = path.name.split(".")[0]
    return path.parent.name if name == "by_user" else name


def is_writer(lines: Sequence[str]) -> bool:
    """Returns whether a client writes "I" and contractions with their apostrophes."""
    bare = Truecase("en").without_apostrophe
    words = [word.strip(".,!?") for line in lines for word in line.replace("\u2019", "'").split()]
    pronouns = [word for word in words if word.partition("'")[0] in ("i", "I")]
    contractions = [word for word in words if word.lower().replace("'", "") in bare]
    small = sum(word[0] == "i" for word in pronouns)
    without = sum("'" not in word for word in contractions)
    return (
        bool(pronouns)
        and bool(contractions)
        and small <= _CARELESS * len(pronouns)
        and without <= _CARELESS * len(contractions)
    )


def lines_of(path: pathlib.Path, half: str, count: int) -> dict[str, list[str]]:
    """Returns lines of held-out clients of a half by domain, in a fixed random order."""
    name = corpus_name(path)
    by_client: dict[str, list[str]] = {}
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            client, _, text = line.rstrip("\n").partition("\t")
            by_client.setdefault(client, []).append(text)
    rng = random.Random(2)
    every, of_writers = [], []
    for client, lines in by_client.items():
        if not (halves.is_in(client, half) and halves.is_held_out(f"{name}:{client}")):
            continue
        usable = [x for x in lines if "<" not in x and len(x.split()) >= _MIN_WORDS]
        sample = rng.sample(usable, min(_LINES_OF_CLIENT, len(usable)))
        every += sample
        of_writers += sample if is_writer(lines) else []
    for sample in (every, of_writers):
        rng.shuffle(sample)
    return {f"{name}, all": every[:count], f"{name}, writers": of_writers[:count]}


def common_typos(path: pathlib.Path) -> dict[str, list[str]]:
    """Returns meant word -> misspellings of the half that no cost was learned on."""
    typos: dict[str, list[str]] = {}
    for pair in spelling.read_pairs(path):
        if halves.is_in(pair.typed, "test"):
            typos.setdefault(pair.meant, []).append(pair.typed)
    return typos


def answer(keyboard: AppKeyboard, question: dict, *, with_touches: bool = False) -> list[str]:
    """Returns the keyboard's words for a question of the oracle, best first.

    A string with spaces inside is typed as it stands, and each space corrects. The words of a
    correction are those after as many words as the context has.
    """
    context, typed = question["context"], question["word"]
    touches = question["touches"] if with_touches else None
    text, strip = _typed(keyboard, context, typed, touches)
    slots = strip.ranked
    if question["task"] != "correct":
        return [slot.word for slot in slots]
    first = strip.correction.applied_to(text) if strip.correction is not None else text
    skipped = len(context.split())
    changes = [first, *(slot.applied_to(text) for slot in slots)]
    return list(dict.fromkeys(" ".join(changed.split()[skipped:]) for changed in changes))


def _typed(
    keyboard: AppKeyboard, context: str, typed: str, touches: Sequence[Touch | None] | None
) -> tuple[str, KeyboardStrip]:
    """Types a string; returns the text before the cursor, and the strip."""
    text, first = context, 0
    for last, character in enumerate([*typed, ""]):
        if character != " " and last < len(typed):
            continue
        text += typed[first:last]
        strip = keyboard.keyboard_strip(
            text, touches=None if touches is None else touches[first:last]
        )
        if character:
            correction = strip.correction
            text = correction.applied_to(text) if correction is not None else f"{text} "
        first = last + 1
    return text, strip


def run_oracle(
    python: str, job: dict, respond: Callable[[dict], list[str]] | None = None
) -> tuple[dict, list[float]]:
    """Runs the oracle of another Python over a contestant.

    Args:
      python: The program.
      job: See `open_benchmark_peers.py`.
      respond: Answers the questions of the contestant "keyboard".

    Returns:
      Kebbie's results, and the CPU seconds of each answer.
    """
    seconds = []
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as files:
        cache = pathlib.Path(folder, ".cache/common_typos/en.json")
        cache.parent.mkdir(parents=True)
        cache.write_text(json.dumps(job["typos"]))
        questions_end, asked = os.pipe()
        answers_end, answered = os.pipe()
        questions = files.enter_context(os.fdopen(questions_end))
        answers = files.enter_context(os.fdopen(answered, "w", buffering=1))
        out = pathlib.Path(folder, "out")
        pipes_and_paths = {
            "questions": asked,
            "answers": answers_end,
            "home": folder,
            "out": str(out),
        }
        pathlib.Path(folder, "job").write_text(json.dumps(job | pipes_and_paths))
        running = subprocess.Popen(
            [python, str(SCRIPT), f"--job={folder}/job"],
            env={**os.environ, "HOME": folder},
            pass_fds=(asked, answers_end),
            stdin=subprocess.DEVNULL,
        )
        os.close(asked)
        os.close(answers_end)
        for line in questions:
            start = time.process_time()
            words = respond(json.loads(line)) if respond is not None else []
            seconds.append(time.process_time() - start)
            answers.write(json.dumps(words) + "\n")
        if running.wait():
            raise SystemExit(f"{python} {SCRIPT.name}: ended with status {running.returncode}.")
        results = json.loads(out.read_text())
    return results, seconds


def summary(results: dict, domain: str) -> dict[str, float]:
    """Returns the figures of a domain: top-3 shares, and precision, recall and F of corrections."""
    correction = results["auto_correction"]["per_domain"].get(domain, {})
    return {
        "next": results["next_word_prediction"]["per_domain"].get(domain, {})["top3_accuracy"],
        "complete": results["auto_completion"]["per_domain"].get(domain, {})["top3_accuracy"],
        "precision": correction["precision"],
        "recall": correction["recall"],
        "F": correction["fscore"],
        "slips": correction["n_typo"],
        "words": correction["n"],
    }


def mean_of(figures: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Returns the mean over seeds of each figure."""
    return {name: float(np.mean([one[name] for one in figures])) for name in figures[0]}


def write_training_text(paths: Sequence[pathlib.Path], out: pathlib.Path) -> None:
    """Writes lines of the clients that are not held out, each closed by a mark of a sentence."""
    with out.open("w", encoding="utf-8") as file:
        for path in paths:
            name = corpus_name(path)
            is_held_out: dict[str, bool] = {}
            with gzip.open(path, "rt", encoding="utf-8") as lines:
                for line in lines:
                    client, _, text = line.rstrip("\n").partition("\t")
                    if client not in is_held_out:
                        is_held_out[client] = halves.is_held_out(f"{name}:{client}")
                    if not is_held_out[client]:
                        file.write(text + ("\n" if text.endswith((".", "?", "!")) else " .\n"))


@contextlib.contextmanager
def presage_program(peers: Sequence[str]) -> Iterator[str]:
    """Builds the program of `presage_strips.cc` if presage is a peer."""
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/presage_strips"
        if "presage" in peers:
            presage.build_program(program)
        yield program


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kebbie-python", required=True, help="Python with the package kebbie")
    parser.add_argument("--model", type=pathlib.Path, default=BASE)
    parser.add_argument("--text", type=pathlib.Path, action="append", default=[])
    parser.add_argument("--phrases", type=pathlib.Path)
    parser.add_argument("--misspellings", type=pathlib.Path, required=True)
    parser.add_argument("--half", choices=halves.HALVES, default="test")
    parser.add_argument("--lines", type=int, default=300, help="of each text, and of its writers")
    parser.add_argument("--seed", type=int, action="append")
    parser.add_argument("--peer", choices=PEERS, action="append", help="default: all")
    parser.add_argument("--jamspell-model", type=pathlib.Path, help="needed by jamspell")
    parser.add_argument(
        "--train-text", type=pathlib.Path, action="append", help="write --jamspell-model of these"
    )
    parser.add_argument("--out", type=pathlib.Path)
    flags = parser.parse_args()
    peers = flags.peer or PEERS
    if "jamspell" in peers and not flags.jamspell_model:
        parser.error("--peer=jamspell needs --jamspell-model")
    if flags.train_text:
        text = flags.jamspell_model.with_suffix(".txt")
        write_training_text(flags.train_text, text)
        command = [flags.kebbie_python, str(SCRIPT), "--train", str(text)]
        subprocess.run([*command, str(flags.jamspell_model)], check=True)
    domains: dict[str, list[str]] = {}
    for path in flags.text:
        domains |= lines_of(path, flags.half, flags.lines)
    if flags.phrases:
        phrases = flags.phrases.read_text("utf-8").splitlines()
        domains["phrases"] = random.Random(2).sample(phrases, min(flags.lines, len(phrases)))
    job = {
        "lines": domains,
        "typos": common_typos(flags.misspellings),
        "beta": _BETA,
        "jamspell_model": str(flags.jamspell_model),
    }
    report: dict = {"lines": {domain: len(lines) for domain, lines in domains.items()}}
    with presage_program(peers) as program:
        for peer in peers:
            runs, seconds = [], []
            for seed in flags.seed or [1]:
                is_ours = peer in ("keyboard", TOUCHED)
                keyboard = AppKeyboard(open_keyboard(flags.model)) if is_ours else None
                respond = None
                if keyboard is not None:
                    respond = functools.partial(answer, keyboard, with_touches=peer == TOUCHED)
                contestant = "keyboard" if is_ours else peer
                of_run = {"contestant": contestant, "seed": seed, "presage_program": program}
                results, times = run_oracle(flags.kebbie_python, job | of_run, respond)
                runs.append(results)
                seconds += times
            report[peer] = {
                domain: mean_of([summary(results, domain) for results in runs])
                for domain in domains
            }
            report[peer]["recall by kind"] = kinds_of(runs)
            report[peer]["mean runtime"] = {
                task: runs[-1][task]["performances"]["mean_runtime"]
                for task in ("next_word_prediction", "auto_completion", "auto_correction")
            }
            if seconds:
                report[peer]["ms of a key, p50 and p99"] = [
                    1e3 * float(x) for x in np.percentile(seconds, [50, 99])
                ]
    text = json.dumps(report, indent=1)
    print(text)
    if flags.out:
        flags.out.write_text(text + "\n")


def kinds_of(runs: Sequence[dict]) -> dict[str, dict[str, float]]:
    """Returns the recall of each kind of slip, first and among three, over all texts and seeds."""
    kinds: dict[str, dict[str, float]] = {}
    for kind in runs[0]["auto_correction"]["per_typo_type"]:
        scores = [run["auto_correction"]["per_typo_type"][kind] for run in runs]
        slips = [score["n_typo"] for score in scores]
        if sum(slips):
            kinds[kind] = {
                "first": float(np.average([x["recall"] for x in scores], weights=slips)),
                "among three": float(np.average([x["top3_recall"] for x in scores], weights=slips)),
                "slips": sum(slips),
            }
    return kinds


if __name__ == "__main__":
    main()
