r"""Measures the cost of a key of the hybrid on one core, and its memory, as a phone would run it.

    python -m tff_keyboard_lab.benchmarks.phone.hybrid_latency keyboard.tflite
    python -m tff_keyboard_lab.benchmarks.phone.hybrid_latency keyboard.tflite --text \
        messages.tsv --people 6

Users type letter by letter and send. The keyboard learns each message and goes on to the next user
with its cache, so that the cache becomes as full as it can. Times are milliseconds of CPU time of
the one thread (`time.thread_time`), because wall time of a busy machine includes its scheduler;
wall time is printed next to it. The rows:

  key              `HybridKeyboardPredictor.strip_for`: tokenising, the three parts, the strip
  first of a word  those keys after a space, when all three parts are computed again
  with manners     `AppKeyboard.keyboard_strip`: capitals, blocklist, autocorrect on top
  message learnt   `HybridKeyboardPredictor.learn`, a message

Memory is the growth of the resident set from before the files are opened to after all keys; the
interpreter's own code is loaded before. `AppKeyboard` is opened and timed after memory is read.
"""

import argparse
import collections
import functools
import gzip
import json
import pathlib
import platform
import sys
import time
from collections.abc import Callable, Iterator

from tff_keyboard_lab.benchmarks.phone.latency import SENTENCES, resident_bytes

GOALS = {"p50_ms": 0.25, "p99_ms": 5.0, "memory_mb": 15.0}
_PERCENTILES = (50, 95, 99)


class Stopwatch:
    """CPU and wall milliseconds of many calls, by name."""

    def __init__(self) -> None:
        self.cpu: dict[str, list[float]] = {}
        self.clock: dict[str, list[float]] = {}

    def time(self, name: str, call: Callable[[], object], also: str = "") -> None:
        """Runs a call, and notes its time under `name` and, if given, `also`."""
        clock, cpu = time.perf_counter(), time.thread_time()
        call()
        spent = time.thread_time() - cpu, time.perf_counter() - clock
        for kind in filter(None, (name, also)):
            self.cpu.setdefault(kind, []).append(1000 * spent[0])
            self.clock.setdefault(kind, []).append(1000 * spent[1])

    def rows(self) -> list[dict]:
        """Returns a row of percentiles for each name."""
        rows = []
        for name, times in self.cpu.items():
            row: dict = {"what": name, "calls": len(times)}
            for kind, values in (("cpu", times), ("clock", self.clock[name])):
                ordered = sorted(values)
                for percent in _PERCENTILES:
                    row[f"{kind}_p{percent}_ms"] = ordered[len(ordered) * percent // 100]
            rows.append(row)
        return rows


def keys_of(message: str) -> Iterator[tuple[str, bool]]:
    """Yields the text after each key, and whether a word begins after it."""
    for end in range(len(message) + 1):
        yield message[:end], end == 0 or message[end - 1] == " "


def measure(model: pathlib.Path, messages: list[str]) -> tuple[list[dict], float]:
    """Returns rows of times, and megabytes."""
    from tff_keyboard_app.keyboard.strip import AppKeyboard
    from tflite_export.runtime import interpreters
    from tflite_export.runtime.hybrid_keyboard import HybridKeyboardPredictor, open_keyboard

    interpreters.import_quietly()
    before = resident_bytes()
    keyboard = open_keyboard(model)
    if not isinstance(keyboard, HybridKeyboardPredictor):
        sys.exit(f"error: {model} has no n-gram. Export it with --ngram=500kB.")
    watch = Stopwatch()
    for message in messages:
        for text, begins in keys_of(message):
            also = "first of a word" if begins else ""
            watch.time("key", functools.partial(keyboard.strip_for, text), also)
        words = keyboard.network.words_of(message)
        watch.time("message learnt", functools.partial(keyboard.learn, words))
    memory = (resident_bytes() - before) / 1e6
    keyboard.cache.forget_all()
    mannerly = AppKeyboard(keyboard)
    for message in messages:
        for text, _ in keys_of(message):
            watch.time("with manners", functools.partial(mannerly.keyboard_strip, text))
        keyboard.learn(keyboard.network.words_of(message))
    return watch.rows(), memory


def messages_of(path: pathlib.Path, people: int) -> list[str]:
    """Returns the messages of the users with the most lines, user after user."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    by_person: dict[str, list[str]] = collections.defaultdict(list)
    for line in text.split("\n")[:-1]:
        person, _, message = line.partition("\t")
        by_person[person].append(message)
    selected = sorted(by_person.values(), key=len, reverse=True)[:people]
    return [text for lines in selected for text in lines]


def table(rows: list[dict]) -> str:
    """Returns the rows as text."""
    lines = [f"{'':16} {'calls':>7}  {'CPU ms, p50/p95/p99':>22}  {'clock ms':>22}"]
    for row in rows:
        cpu, clock = (
            " / ".join(f"{row[f'{kind}_p{percent}_ms']:.3f}" for percent in _PERCENTILES)
            for kind in ("cpu", "clock")
        )
        lines.append(f"{row['what']:16} {row['calls']:>7,}  {cpu:>22}  {clock:>22}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--text", type=pathlib.Path, help="lines of user<TAB>message, plain or .gz")
    parser.add_argument(
        "--people", type=int, default=6, help="number of users of --text: those with the most lines"
    )
    parser.add_argument("--messages", type=int, default=400, help="largest number of messages")
    parser.add_argument("--json", type=pathlib.Path, help="write the rows to this JSON file, too")
    options = parser.parse_args()
    if options.text:
        messages = messages_of(options.text, options.people)[: options.messages]
    else:
        messages = list(SENTENCES) * (options.messages // len(SENTENCES))
    rows, memory = measure(options.model, messages)
    print(f"{platform.machine()}, one thread; goals for a key: {GOALS}")
    print(table(rows))
    print(f"memory {memory:.1f} MB")
    if options.json:
        content = {"rows": rows, "memory_mb": memory, "goals": GOALS}
        options.json.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
