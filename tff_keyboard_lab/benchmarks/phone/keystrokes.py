"""Times the evaluation of recall and keystrokes, with the model in the loop.

python -m tff_keyboard_lab.benchmarks.phone.keystrokes --out=keystrokes.json
python -m tff_keyboard_lab.benchmarks.phone.keystrokes --store=data/nus_sms --model=runs/nus_sms

Without a store the text is made up: V = 10,000 pronounceable words in Zipf's proportions, messages
of 11 words. Each model is evaluated as `tff-keyboard compare` does it: recall, MRR, perplexity,
impressions and keystrokes for every target of every message. `parts` times the steps after the
scores: ranks, prefix counts, and the same prefix counts by scanning the vocabulary at every key
(on fewer words). `suggest` is one call of the keyboard's interface. CPU seconds count every thread
of this process: on a shared machine they are steadier than wall time.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import time
from typing import Any

import numpy as np

from tff_keyboard_lab.tools.checkout import commit

VOCABULARY = 10_000
SCANNED_WORDS = 200


def made_up_text(num_words, seed):
    """Returns `(vocabulary, text)` of Zipf-distributed syllable words.

    Messages have 11 words on average.
    """
    from tff_keyboard.data.vocabulary import SPECIAL_WORDS, NormalisationRules, Vocabulary
    from tff_keyboard.evaluation.counts.typed_text import TypedText

    rng = np.random.default_rng(seed)
    syllables = [a + b for a in "bcdfghklmnprstvwyz" for b in ("a", "e", "i", "o", "u", "an", "er")]
    words: dict[str, None] = {}
    while len(words) < VOCABULARY - len(SPECIAL_WORDS):
        words["".join(rng.choice(syllables, rng.integers(1, 5)))] = None
    table = list(words)
    people: list[list[list[str]]] = []
    while sum(len(m) for person in people for m in person) < num_words:
        lengths = np.clip(rng.geometric(1 / 11, 100), 1, 40)
        people.append(
            [[table[min(i, len(table)) - 1] for i in rng.zipf(1.3, n).tolist()] for n in lengths]
        )
    names = tuple(f"person {i}" for i in range(len(people)))
    vocabulary = Vocabulary((*SPECIAL_WORDS, *table), NormalisationRules())
    return vocabulary, TypedText("made up", names, tuple(people))


def timed(function, repeats):
    """Returns the median `(wall, CPU)` seconds of a call."""
    wall, cpu = [], []
    for _ in range(repeats):
        start, start_cpu = time.perf_counter(), time.process_time()
        function()
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - start_cpu)
    return float(np.median(wall)), float(np.median(cpu))


def scan(scores, targets, words, k):
    """Returns the number of typed characters, by looking through all words at every key."""
    typed = []
    for row, target in zip(scores, targets, strict=True):
        word, count = words[target], 0
        while count < len(word):
            fitting = [i for i in range(4, len(words)) if words[i].startswith(word[:count])]
            if target in sorted(fitting, key=lambda i: (-row[i], i))[:k]:
                break
            count += 1
        typed.append(count)
    return typed


def parts(predictor, text, repeats):
    """Returns microseconds a word of the steps after the scores."""
    from tff_keyboard.data.vocabulary import BOS, NUM_SPECIAL
    from tff_keyboard.evaluation.metrics.keystrokes import characters_typed
    from tff_keyboard.evaluation.metrics.target_ranks import target_ranks
    from tff_keyboard.predictors.prefix_index import PrefixIndex

    messages = [message for person in text.messages for message in person][:200]
    rows = [predictor.vocabulary.encode(message) for message in messages]
    ids = np.zeros([len(rows), max(map(len, rows)) + 1], np.int32)
    for row, words in zip(ids, rows, strict=True):
        row[: len(words) + 1] = [BOS, *words]
    targets = np.concatenate([ids[:, 1:], np.zeros([len(rows), 1], np.int32)], axis=1)[ids != 0]
    typed = targets >= NUM_SPECIAL
    scores, targets = predictor.log_probabilities(ids)[typed], targets[typed]
    index = PrefixIndex(predictor.vocabulary)
    index.prefix_ranges  # noqa: B018 - computed once and kept
    ranks = target_ranks(scores, targets).words

    some, few = scores[:SCANNED_WORDS], targets[:SCANNED_WORDS]
    calls = {
        "scores": (lambda: predictor.log_probabilities(ids), len(targets)),
        "ranks": (lambda: target_ranks(scores, targets), len(targets)),
        "prefix counts": (
            lambda: characters_typed(scores, targets, index, word_ranks=ranks),
            len(targets),
        ),
        "prefix counts by scanning": (
            lambda: scan(some, few, predictor.vocabulary.words, 3),
            len(few),
        ),
    }
    assert list(characters_typed(some, few, index)) == scan(
        some, few, predictor.vocabulary.words, 3
    )
    return {name: 1e6 * timed(call, repeats)[0] / n for name, (call, n) in calls.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", help="client store; default: generated text")
    parser.add_argument("--model", help="run directory; default: an untrained CIFG")
    parser.add_argument("--population", default="held_out")
    parser.add_argument(
        "--words", type=int, default=30_000, help="number of words of generated text"
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=pathlib.Path, help="write the result to this JSON file, too")
    flags = parser.parse_args()

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    from tff_keyboard.data.store.client_store import ClientStore
    from tff_keyboard.evaluation.counts import predictor_evaluation, typed_text
    from tff_keyboard.models import build_model
    from tff_keyboard.models.saved_model import load_model
    from tff_keyboard.predictors.keras_predictor import KerasPredictor
    from tff_keyboard.predictors.ngram.ngram_predictor import NGramPredictor
    from tff_keyboard.predictors.predictor import Predictor

    if flags.store:
        store = ClientStore(flags.store)
        vocabulary = store.vocabulary
        text = typed_text.of_population(store, flags.population)
        train = store.all_messages("train")
    else:
        vocabulary, text = made_up_text(flags.words, flags.seed)
        train = [
            np.array(vocabulary.encode(message)) for person in text.messages for message in person
        ]
    if flags.model:
        cifg = KerasPredictor(*load_model(flags.model))
    else:
        model = build_model("cifg", vocabulary_size=len(vocabulary), seed=flags.seed)
        cifg = KerasPredictor(model, vocabulary)
    start = time.perf_counter()
    ngram = NGramPredictor.train(train, vocabulary)
    ngram_seconds = time.perf_counter() - start

    result: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs",
        "load_average": os.getloadavg()[0],
        "vocabulary": len(vocabulary),
        "words": text.num_words,
        "ngram_training_seconds": ngram_seconds,
        "ngrams": ngram.model.num_ngrams,
        "models": {},
    }
    models: dict[str, Predictor] = {"cifg": cifg, "ngram": ngram}
    for name, predictor in models.items():
        predictor_evaluation.evaluate(predictor, text, max_length=1)  # compiles
        wall, cpu = timed(
            lambda predictor=predictor: predictor_evaluation.evaluate(predictor, text),
            flags.repeats,
        )
        result["models"][name] = {
            "seconds": wall,
            "words_per_second": text.num_words / wall,
            "words_per_cpu_second": text.num_words / cpu,
            "microseconds_per_word": parts(predictor, text, flags.repeats),
        }
    print(json.dumps(result, indent=1))
    if flags.out:
        flags.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
