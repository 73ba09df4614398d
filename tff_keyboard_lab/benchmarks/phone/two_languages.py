"""Types messages of two languages on one keyboard for both, and on a keyboard for each.

    python -m tff_keyboard_lab.benchmarks.phone.two_languages en de --half=test --out=en_de.json

The sentences come from held-out clients of `prepare`, of one half (`tools/halves.py`), in
`$TFF_KEYBOARD_DATA/languages/CODE.tsv.gz` and, for English, `open_text/tatoeba_en.tsv.gz`. They are
typed right. Each keyboard starts anew with each kind of text, and messages come one after the
other:

    one language    messages of that language alone, for each of the two
    by sentence     each message has a sentence of each language, in random order
    by word         each message has pieces of 2 to 4 words of two sentences, in turn

For each word the strip is read at 0 and at 2 typed letters (`--letters`). `top3` is the share of
words that it has. `changed` is the share of words, all of which are right, that a space would
change. "right one" is the keyboard of the language of the word, as a switch by hand would give it.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import random
import time
from collections.abc import Iterator, Mapping, Sequence

from tff_keyboard.host import quiet
from tff_keyboard.storage import shipped_files
from tff_keyboard_app.keyboard.multilingual import MultilingualKeyboard
from tff_keyboard_app.keyboard.strip import AppKeyboard
from tff_keyboard_app.keyboard.typing_session import CorrectsText
from tff_keyboard_lab.benchmarks.phone.marks import read_sentences
from tff_keyboard_lab.tools import halves

CODES = ("en", "de", "tr", "es", "nl", "pt")
BOTH, RIGHT_ONE = "both", "right one"
_MARKS = "\"'.,;:!?¿¡()«»„“”…-–"
_SHORTEST, _LONGEST = 4, 20  # words of a sentence
_PIECE = (2, 4)  # words

Piece = tuple[int, list[str]]  # number of its language, words with their marks
Message = list[Piece]


@dataclasses.dataclass
class Counts:
    """Counts of typed words.

    Attributes:
      words: All of them.
      strips: CorrectsText that were read.
      hits: CorrectsText that have the word.
      changed: Words that a space changes.
      seconds: Time of all strips.
    """

    words: int = 0
    strips: int = 0
    hits: int = 0
    changed: int = 0
    seconds: float = 0.0

    def shares(self) -> dict[str, float]:
        """Returns the figures of the table."""
        return {
            "words": self.words,
            "top3": self.hits / max(1, self.strips),
            "changed": self.changed / max(1, self.words),
            "ms": 1000 * self.seconds / max(1, self.strips + self.words),
        }


def messages_of(sentences: Sequence[Sequence[str]], rng: random.Random) -> dict[str, list[Message]]:
    """Returns the kinds of text from sentences of two languages.

    Args:
      sentences: For each language, its sentences, as many as of the other one.
      rng: Chooses the order and the pieces.
    """
    split = [[sentence.split() for sentence in one] for one in sentences]
    kinds: dict[str, list[Message]] = {
        f"language {number + 1}": [[(number, words)] for words in one]
        for number, one in enumerate(split)
    }
    kinds["by sentence"], kinds["by word"] = [], []
    for pair in zip(*split, strict=True):
        pieces = list(enumerate(pair))
        rng.shuffle(pieces)
        kinds["by sentence"].append(pieces)
        kinds["by word"].append(list(_in_turn(pieces, rng)))
    return kinds


def _in_turn(pieces: Sequence[Piece], rng: random.Random) -> Iterator[Piece]:
    """Yields pieces of the messages of each language in turn, until all words are typed."""
    remaining = [(number, list(words)) for number, words in pieces]
    while any(words for _, words in remaining):
        for number, words in remaining:
            size = rng.randint(*_PIECE)
            if words:
                yield number, words[:size]
            del words[:size]


def typed(
    keyboards: Mapping[str, Sequence[CorrectsText]],
    messages: Sequence[Message],
    letters: Sequence[int],
) -> dict[str, Counts]:
    """Types messages on each keyboard, and returns its counts by name.

    Args:
      keyboards: Name -> the keyboard for each language, the same one for both or not.
      messages: Messages, right as they are.
      letters: Numbers of typed letters at which the strip is read.
    """
    counts = {name: Counts() for name in keyboards}
    for message in messages:
        for name, by_language in keyboards.items():
            text = ""
            for number, words in message:
                for token in words:
                    _type(by_language[number], text, token, letters, counts[name])
                    text += f"{token} "
            for keyboard in {id(one): one for one in by_language}.values():
                if isinstance(keyboard, MultilingualKeyboard):
                    keyboard.sent(text.strip())
    return counts


def _type(
    keyboard: CorrectsText, before: str, token: str, letters: Sequence[int], counts: Counts
) -> None:
    """Types a token after a text, and counts the strips with the word, and if a space changes it.

    `letters` are the numbers of letters after which the strip is looked at.
    """
    word = token.strip(_MARKS)
    if not any(map(str.isalpha, word)):
        return
    before += token[: token.find(word)]
    counts.words += 1
    start = time.perf_counter()
    for size in letters:
        if size < len(word):
            strip = keyboard.keyboard_strip(before + word[:size])
            counts.strips += 1
            counts.hits += word.casefold() in {one.casefold() for one in strip.words}
    correction = keyboard.keyboard_strip(before + word).correction
    counts.seconds += time.perf_counter() - start
    if correction is not None:
        counts.changed += correction.applied_to(before + word) != f"{before}{word} "


def held_out_sentences(code: str, half: str, count: int, rng: random.Random) -> list[str]:
    """Returns sentences of a language from clients that no shipped model was trained on."""
    folder = pathlib.Path(os.environ["TFF_KEYBOARD_DATA"])
    name = "open_text/tatoeba_en.tsv.gz" if code == "en" else f"languages/{code}.tsv.gz"
    sentences = [
        text
        for client, text in read_sentences(folder / name)
        if halves.is_held_out(client)
        and halves.is_in(client, half)
        and _SHORTEST <= len(text.split()) <= _LONGEST
    ]
    rng.shuffle(sentences)
    return sentences[:count]


def model_of(code: str) -> pathlib.Path:
    """Returns the shipped model of a language."""
    return shipped_files.locate(shipped_files.model_folder(code) / "keyboard.tflite")


def table(results: Mapping[str, Mapping[str, Counts]]) -> str:
    """Returns the counts as text."""
    lines = [f"{'text':<14}{'keyboard':<12}{'words':>7}{'top-3':>9}{'changed':>10}{'ms':>7}"]
    for kind, by_name in results.items():
        for name, counts in by_name.items():
            one = counts.shares()
            lines.append(
                f"{kind:<14}{name:<12}{one['words']:>7,}{one['top3']:>9.2%}"
                f"{one['changed']:>10.2%}{one['ms']:>7.1f}"
            )
    return "\n".join(lines)


def main() -> None:
    """Runs the benchmark of the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("languages", nargs=2, choices=CODES, metavar="CODE")
    parser.add_argument("--half", choices=halves.HALVES, default="test")
    parser.add_argument("--messages", type=int, default=200, help="of each kind of text")
    parser.add_argument("--letters", type=int, nargs="+", default=[0, 2])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path)
    flags = parser.parse_args()
    first, second = flags.languages
    if first == second:
        parser.error("the two languages must differ")
    quiet.import_tensorflow()
    rng = random.Random(flags.seed)
    sentences = [
        held_out_sentences(code, flags.half, flags.messages, rng) for code in flags.languages
    ]
    shortest = min(map(len, sentences))
    kinds = messages_of([one[:shortest] for one in sentences], rng)
    alone = [AppKeyboard.open(model_of(code)) for code in flags.languages]
    # Objects of its own, because a keyboard remembers the slips that it has looked up.
    together = [AppKeyboard.open(model_of(code)) for code in flags.languages]
    results: dict[str, dict[str, Counts]] = {}
    for kind, messages in kinds.items():
        kind = {"language 1": first, "language 2": second}.get(kind, kind)
        both = MultilingualKeyboard(together)
        keyboards: dict[str, Sequence[CorrectsText]] = {
            BOTH: [both] * 2,
            first: [alone[0]] * 2,
            second: [alone[1]] * 2,
        }
        if kind not in flags.languages:
            keyboards[RIGHT_ONE] = alone
        results[kind] = typed(keyboards, messages, flags.letters)
        print(table({kind: results[kind]}), flush=True)
    if flags.out:
        content = {
            "half": flags.half,
            "seed": flags.seed,
            "letters": flags.letters,
            "texts": {
                kind: {name: counts.shares() for name, counts in by_name.items()}
                for kind, by_name in results.items()
            },
        }
        flags.out.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
