"""libcifg beside the interpreters: the same strips, and what a key costs.

    python -m benchmarks.phone.native models/messages/keyboard.tflite --store=data/nus_sms

Held-out people of a store type word by word. At each word two strips are compared, behind the space
and behind the first letter; a hybrid learns each message, and forgets all with each person. Where
strips differ, `gap` says by how much of its probability the other's word was behind. A key is one
letter of fixed sentences, clock and CPU milliseconds of one thread.
"""

import argparse
import json
import pathlib
import tempfile
import time
from collections.abc import Callable

from benchmarks.phone import libcifg
from benchmarks.phone.latency import SENTENCES


def main() -> None:
    """Prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--store")
    parser.add_argument("--words", type=int, default=10**9)
    parser.add_argument("--runtimes", default="litert,tensorflow")
    args = parser.parse_args()
    from tflite_export.runtime.hybrid_keyboard import open_keyboard

    with tempfile.TemporaryDirectory() as folder:
        library = libcifg.make("libcifg.so", pathlib.Path(folder))
        native = libcifg.NativeKeyboard(library, args.model)
        keyboards = {name: open_keyboard(args.model, runtime=name) for name in _names(args)}
        result: dict = {"bytes": library.stat().st_size, "keys": {}}
        result["keys"]["libcifg"] = _key_times(native.strip_for)
        for name, keyboard in keyboards.items():
            result["keys"][name] = _key_times(keyboard.strip_for)
        print(json.dumps(result), flush=True)
        if args.store:
            print(json.dumps(_compare(native, keyboards, args.store, args.words)))


def _names(args) -> list[str]:
    return args.runtimes.split(",")


def _key_times(strip_for: Callable) -> dict[str, float]:
    clock, cpu = [], []
    for _ in range(20):
        for sentence in SENTENCES:
            for end in range(1, len(sentence) + 1):
                start, start_cpu = time.perf_counter(), time.thread_time()
                strip_for(sentence[:end])
                cpu.append(1000 * (time.thread_time() - start_cpu))
                clock.append(1000 * (time.perf_counter() - start))
    found = {}
    for name, times in (("clock", sorted(clock)), ("cpu", sorted(cpu))):
        for percent in (50, 90, 99):
            found[f"{name}_p{percent}_ms"] = round(times[len(times) * percent // 100], 4)
    return found


def _compare(native, keyboards: dict, store_directory: str, most_words: int) -> dict:
    from tff_keyboard.data.store.client_store import ClientStore
    from tff_keyboard.evaluation.counts import typed_text

    text = typed_text.of_population(ClientStore(store_directory), "held_out")
    words, strips = 0, 0
    different = dict.fromkeys([*keyboards, "between_runtimes"], 0)
    gaps: list[float] = []
    for person in text.messages:
        if words >= most_words:
            break
        for keyboard in keyboards.values():
            if hasattr(keyboard, "cache"):
                keyboard.cache.forget_all()
                native.forget()
        for message in person:
            for place, word in enumerate(message):
                words += 1
                for prefix in ("", word[:1]):
                    strips += 1
                    ours = native.suggest(message[:place], prefix)
                    theirs = {n: k.suggest(message[:place], prefix) for n, k in keyboards.items()}
                    lists = {n: [w for w, _ in found] for n, found in theirs.items()}
                    for name, found in theirs.items():
                        if lists[name] != [w for w, _ in ours]:
                            different[name] += 1
                            gaps.append(_gap(ours, dict(found)))
                    different["between_runtimes"] += len({tuple(each) for each in lists.values()}) > 1
            if native.sizes.is_hybrid:
                native.learn(message)
                for keyboard in keyboards.values():
                    keyboard.learn(message)
    largest = round(max(gaps, default=0.0), 6)
    return {"words": words, "strips": strips, "different": different, "largest_gap": largest}


def _gap(ours: list[tuple[str, float]], theirs: dict[str, float]) -> float:
    """Our word's probability against what stands in its place there, as a fraction."""
    return max(
        abs(p - q) / max(p, q, 1e-30)
        for (_, p), q in zip(ours, theirs.values(), strict=False)
    )


if __name__ == "__main__":
    main()
