"""Next words and completions next to Debian's `presage` with its stock English database.

python -m tff_keyboard_lab.benchmarks.phone.presage --text=CLIENTS.tsv.gz --text=MORE.tsv.gz \
    --messages=2000 --out=presage.json

Text is `client<TAB>text`; messages of clients of the test half are typed (`tools/halves.py`), the
same number of each file, at most 30 words of each. Both keyboards get the same lower-case words
with single spaces, and neither learns. They are asked before each letter of a word until it is
among their three words. A word matches without regard to capitals and apostrophes.

Only words of letters are counted, because presage splits words at apostrophes and digits are no
words to it; the others are context. Accepting a word is free, as in
`evaluation/metrics/keystrokes.py`. Debian: presage, libpresage-dev, libpresage-data, g++. Presage
runs with its configuration of Debian, except that it learns nothing and may repeat a suggestion.
"""

import argparse
import collections
import json
import pathlib
import subprocess
import tempfile
from collections.abc import Callable, Sequence

from tff_keyboard.data.text.python_tokenizer import PythonTokenizer
from tff_keyboard_app.keyboard.strip import AppKeyboard
from tff_keyboard_lab.benchmarks.phone.spelling import BASE, letters_of, read_text
from tff_keyboard_lab.tools import halves
from tflite_export.runtime.hybrid_keyboard import open_keyboard

Suggest = Callable[[str], Sequence[str]]  # text before the cursor -> at most three words
SOURCE = pathlib.Path(__file__).with_name("presage_strips.cc")
_MAX_WORDS = 30


def best_of(keyboard: AppKeyboard, text: str) -> list[str]:
    """Returns the words of the strip, best first."""
    return list(keyboard.keyboard_strip(text).words)


def letters_needed(suggest: Suggest, before: str, word: str) -> tuple[int, bool]:
    """Returns the letters typed until a word is offered, and if it is best before the first."""
    for letters in range(len(word)):
        suggestions = [
            letters_of(suggestion, "en") for suggestion in suggest(before + word[:letters])
        ]
        if word in suggestions:
            return letters, letters == 0 and suggestions[0] == word
    return len(word), False


def type_messages(suggest: Suggest, messages: list[list[str]]) -> dict[str, int]:
    """Types messages; returns the counts that the shares are made of."""
    counts: collections.Counter[str] = collections.Counter()
    for message in messages:
        before = ""
        for word in message[:_MAX_WORDS]:
            if word.isalpha():
                typed, is_best = letters_needed(suggest, before, word)
                counts["words"] += 1
                counts["characters"] += len(word)
                counts["typed"] += typed
                counts["top-1"] += is_best
                counts["top-3"] += typed == 0
            before += f"{word} "
    return dict(counts)


def shares(counts: dict[str, int]) -> dict[str, float]:
    """Returns counts with the shares, in percent."""
    return {
        "words": counts["words"],
        "top-1": 100 * counts["top-1"] / counts["words"],
        "top-3": 100 * counts["top-3"] / counts["words"],
        "keystrokes saved": 100 * (1 - counts["typed"] / counts["characters"]),
    }


def build_program(program: str) -> None:
    """Compiles `presage_strips.cc`."""
    command = ["g++", "-O2", "-std=c++14", str(SOURCE), "-lpresage", "-o", program]
    subprocess.run(command, check=True)


def with_presage(messages: list[list[str]]) -> dict[str, int]:
    """Returns what `type_messages` does of presage, with an empty home directory."""
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/presage_strips"
        build_program(program)
        with subprocess.Popen(
            [program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env={"HOME": folder, "LANG": "C.UTF-8"},
        ) as running:
            prompts, answers = running.stdin, running.stdout
            assert prompts is not None
            assert answers is not None

            def suggest(text: str) -> list[str]:
                prompts.write(f"{text}\n")
                return answers.readline().rstrip("\n").split("\t")

            counts = type_messages(suggest, messages)
            prompts.close()
    return counts


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=pathlib.Path, default=BASE)
    parser.add_argument("--text", type=pathlib.Path, action="append", required=True)
    parser.add_argument(
        "--messages", type=int, default=2_000, help="number of messages of all texts together"
    )
    parser.add_argument("--out", type=pathlib.Path)
    flags = parser.parse_args()
    keyboard = AppKeyboard(open_keyboard(flags.model))
    tokenizer = PythonTokenizer(keyboard.predictor.vocabulary.rules)
    result = {}
    for path in flags.text:
        lines = read_text(path, lambda client: halves.is_in(client, "test"))[
            : flags.messages // len(flags.text)
        ]
        messages = tokenizer.tokenize([" ".join(line) for line in lines])
        result[path.parent.name] = {
            "keyboard": shares(type_messages(lambda text: best_of(keyboard, text), messages)),
            "presage": shares(with_presage(messages)),
        }
    text = json.dumps(result, indent=1)
    print(text)
    if flags.out:
        flags.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
