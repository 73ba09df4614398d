r"""Compares libcifg with the interpreters and NumPy: their strips, and the time of a key.

    python -m tff_keyboard_lab.benchmarks.phone.native models/messages/keyboard.tflite \
        --store=data/nus_sms

Held-out users of a store type word by word. At each word two strips are compared, after the space
and after the first letter. With --learn a hybrid learns each message, and forgets all words after
each user. If strips differ, `largest_gap` is the relative difference in probability of two words at
the same position. `numpy` is the network of `numpy_network.py`, in float64. A key is one letter of
fixed sentences, in wall and CPU milliseconds of one thread. A line every 10,000 words has the
counts so far.
"""

import argparse
import json
import pathlib
import tempfile
import time
from collections.abc import Callable, Iterator

from tff_keyboard_lab.benchmarks.phone import libcifg
from tff_keyboard_lab.benchmarks.phone.latency import SENTENCES

Strip = list[tuple[str, float]]


def main() -> None:
    """Builds libcifg, and prints lines of JSON.

    The first line: `bytes` of the library, and `keys`: runtime -> p50, p90 and p99 of a key in
    milliseconds, `clock_` (wall) and `cpu_`. With --store, then cumulative counts every 10,000
    words and at the end: `people`, `words`, `strips`; for each runtime the strips that differ from
    libcifg's; `between_runtimes`, the strips on which the runtimes themselves differ;
    `largest_gap`.
    """
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--store")
    parser.add_argument("--words", type=int, default=10**9)
    parser.add_argument("--learn", action="store_true")
    parser.add_argument(
        "--runtimes",
        default="litert,numpy",
        help="runtimes to compare, separated by commas: litert, numpy, tensorflow",
    )
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        library = libcifg.make("libcifg.so", pathlib.Path(folder))
        native = libcifg.NativeKeyboard(library, args.model)
        keyboards = {name: opened(args.model, name) for name in args.runtimes.split(",")}
        result: dict = {"bytes": library.stat().st_size, "keys": {}}
        result["keys"]["libcifg"] = _key_times(native.strip_for)
        for name, keyboard in keyboards.items():
            result["keys"][name] = _key_times(keyboard.strip_for)
        print(json.dumps(result), flush=True)
        if args.store:
            for counts in _compare(native, keyboards, args):
                print(json.dumps(counts), flush=True)


def opened(model: str, runtime: str):
    """Opens the keyboard of an export in one of the runtimes."""
    from tff_keyboard_lab.benchmarks.phone.numpy_network import on_numpy
    from tflite_export.runtime.hybrid_keyboard import open_keyboard

    if runtime == "numpy":
        return on_numpy(open_keyboard(model, runtime="litert"))
    return open_keyboard(model, runtime=runtime)


def _key_times(strip_for: Callable) -> dict[str, float]:
    """Returns percentiles of the milliseconds of a key, by wall clock and by CPU time."""
    clock, cpu = [], []
    for _ in range(20):
        for sentence in SENTENCES:
            for end in range(1, len(sentence) + 1):
                start, start_cpu = time.perf_counter(), time.thread_time()
                strip_for(sentence[:end])
                cpu.append(1000 * (time.thread_time() - start_cpu))
                clock.append(1000 * (time.perf_counter() - start))
    percentiles = {}
    for name, times in (("clock", sorted(clock)), ("cpu", sorted(cpu))):
        for percent in (50, 90, 99):
            percentiles[f"{name}_p{percent}_ms"] = round(times[len(times) * percent // 100], 4)
    return percentiles


def _compare(native, keyboards: dict, args) -> Iterator[dict]:
    """Yields counts of equal strips, every 10,000 words and at the end."""
    from tff_keyboard.data.store.client_store import ClientStore
    from tff_keyboard.evaluation.counts import typed_text

    text = typed_text.of_population(ClientStore(args.store), "held_out")
    learns = args.learn and native.sizes.is_hybrid
    counts: dict = {"people": 0, "words": 0, "strips": 0}
    counts |= dict.fromkeys([*keyboards, "between_runtimes"], 0) | {"largest_gap": 0.0}
    for person in text.messages:
        counts["people"] += 1
        if learns:
            native.forget()
            for keyboard in keyboards.values():
                keyboard.cache.forget_all()
        for message in person:
            for position, word in enumerate(message):
                for prefix in ("", word[:1]):
                    ours = native.suggest(message[:position], prefix)
                    _count(
                        ours,
                        [k.suggest(message[:position], prefix) for k in keyboards.values()],
                        list(keyboards),
                        counts,
                    )
                counts["words"] += 1
                if counts["words"] % 10_000 == 0:
                    yield counts
            for keyboard in (native, *keyboards.values()) if learns else ():
                keyboard.learn(message)
        if counts["words"] >= args.words:
            break
    yield counts


def _count(ours: Strip, theirs: list[Strip], names: list[str], counts: dict) -> None:
    """Counts a strip: whether ours differs from each other runtime's, and those from each other."""
    counts["strips"] += 1
    words = [[word for word, _ in strip] for strip in theirs]
    counts["between_runtimes"] += len(set(map(tuple, words))) > 1
    for name, strip, other in zip(names, theirs, words, strict=True):
        if other != [word for word, _ in ours]:
            counts[name] += 1
            counts["largest_gap"] = max(counts["largest_gap"], _gap(ours, strip))


def _gap(ours: Strip, theirs: Strip) -> float:
    """Returns the relative difference in probability of two words at the same position.

    The first probability is libcifg's, the second the other keyboard's.
    """
    gaps = [
        abs(p - q) / max(p, q, 1e-30)
        for (word, p), (other, q) in zip(ours, theirs, strict=False)
        if word != other
    ]
    return round(max(gaps, default=1.0), 6)


if __name__ == "__main__":
    main()
