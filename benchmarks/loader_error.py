"""What the data loader of the published FedAtt code does to perplexity, reproduced.

python -m benchmarks.loader_error $TFF_KEYBOARD_DATA/wikitext2 --out=docs/papers/loader_error.json

There a sentence is a list, `<SOS>` w_1 ... w_n `EOS`, and a batch of lists is put together by the
default collation of torch 0.4.1, which zips them: the batch is cut to its shortest sentence, and
what the model then reads as a sentence is the t-th word of all the sentences of the batch, one
behind the other. The first of these "sentences" is `<SOS>` again and again. The published
perplexities are of such text, in training (batches of 10) and in the final evaluation (128).
Source: https://github.com/shaoxiongji/fed-att, src/Text.py, Update.py and run.py, and its issue 4,
where a reader found the same; `as_published` is our own reproduction of what it does.

The models here are counts, so that the whole vocabulary of the paper fits and a minute is enough: a
unigram, and an interpolated Kneser-Ney 5-gram. Each is trained and scored with the error and
without.
"""

import argparse
import itertools
import json
import math
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tff_keyboard.baselines.kneser_ney import KneserNey
from tff_keyboard.data.sources.plain_text import corpus_files
from tff_keyboard.data.vocabulary import NUM_SPECIAL
from tff_keyboard.storage import files
from tff_keyboard.text_table import aligned

START, END = "<SOS>", "EOS"  # words of their vocabulary like any other
TRAINING_BATCH, EVALUATION_BATCH = 10, 128
ORDERS = {"unigram": 1, "5-gram": 5}
_CHUNK = 256  # distributions at a time, [_CHUNK, V]


def sentences(path: pathlib.Path, index: dict[str, int]) -> list[np.ndarray]:
    """The sentences of a file as the published code cuts them.

    Args:
      path: One paragraph a line; sentences end at " . ".
      index: Word -> id; new words are added, from `NUM_SPECIAL` on.

    Returns:
      [words + 2] int64 each: start, words in lower case, end.
    """
    found = []
    with path.open(encoding="utf-8") as lines:
        for sentence in itertools.chain.from_iterable(line.split(" . ") for line in lines):
            if words := sentence.split():
                tokens = [START, *(word.lower() for word in words), END]
                ids = [index.setdefault(token, NUM_SPECIAL + len(index)) for token in tokens]
                found.append(np.array(ids))
    return found


def as_published(
    text: Sequence[np.ndarray], batch_size: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """The same text as the published loader gives it to the model.

    Args:
      text: Sentences, shuffled here as the loader does.
      batch_size: Sentences zipped together.
      rng: Of the shuffling.

    Returns:
      For each batch as many "sentences" as its shortest sentence has words, each as long as the
      batch is large. All words behind the shortest sentence are gone.
    """
    shuffled = [text[place] for place in rng.permutation(len(text))]
    batches = [shuffled[i : i + batch_size] for i in range(0, len(shuffled), batch_size)]
    return [np.array(column) for batch in batches for column in zip(*batch, strict=False)]


def perplexity(model: KneserNey, text: Sequence[np.ndarray]) -> float:
    """Of every word of a sentence but its first, given those before it."""
    nats = words = 0.0
    for contexts, targets in _positions(model, text):
        given = model.probabilities(contexts)[np.arange(len(targets)), targets]
        nats -= np.log(given.astype(np.float64)).sum()
        words += len(targets)
    return math.exp(nats / words)


def _positions(
    model: KneserNey, text: Sequence[np.ndarray]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """`(contexts, targets)` of about `_CHUNK` positions at a time."""
    waiting: list[tuple[np.ndarray, np.ndarray]] = []
    for ids in (ids for ids in text if len(ids) > 1):
        waiting.append((model.context_nodes(ids[None, :-1])[0], ids[1:]))
        if sum(len(targets) for _, targets in waiting) >= _CHUNK:
            yield _joined(waiting)
            waiting = []
    if waiting:
        yield _joined(waiting)


def _joined(parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    contexts, targets = zip(*parts, strict=True)
    return np.concatenate(contexts), np.concatenate(targets)


def facts_of(text: Sequence[np.ndarray], cut: Sequence[np.ndarray], start: int) -> dict[str, float]:
    """What the error leaves of a text.

    Args:
      text: Its sentences.
      cut: What `as_published` made of them.
      start: Id of the start of a sentence.

    Returns:
      `share_read` of all words, and `share_start_to_start` of what is predicted.
    """
    predicted = np.concatenate([column[1:] for column in cut])
    return {
        "share_read": sum(map(len, cut)) / sum(map(len, text)),
        "share_start_to_start": float(np.mean(predicted == start)),
    }


def measure(folder: pathlib.Path, seed: int) -> dict[str, Any]:
    """All perplexities of a corpus.

    Args:
      folder: With train, valid and test file.
      seed: Of the shuffling.

    Returns:
      JSON values: `vocabulary`, `text` (what the error leaves of train and test text) and
      `perplexity`, model -> "trained with the error"/"trained right" -> "scored ..." -> value.
    """
    index: dict[str, int] = {}
    train, _, test = (sentences(path, index) for path in corpus_files([folder]))
    rng = np.random.default_rng(seed)
    cut_train = as_published(train, TRAINING_BATCH, rng)
    cut_test = as_published(test, EVALUATION_BATCH, rng)
    size = NUM_SPECIAL + len(index)
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name, order in ORDERS.items():
        for label, text in (("trained with the error", cut_train), ("trained right", train)):
            joined = [np.concatenate(text)]  # so that the model's own end of message is no word
            model = KneserNey.train(joined, vocabulary_size=size, order=order)
            found.setdefault(name, {})[label] = {
                "scored with the error": perplexity(model, cut_test),
                "scored right": perplexity(model, test),
            }
    return {
        "vocabulary": len(index),
        "seed": seed,
        "text": {
            "train": facts_of(train, cut_train, index[START]),
            "test": facts_of(test, cut_test, index[START]),
        },
        "perplexity": found,
    }


def table(perplexities: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """The perplexities, a line for each model and training."""
    rows = [["", "", "scored with the error", "scored right"]]
    for name, trainings in perplexities.items():
        for label, scores in trainings.items():
            rows.append([name, label, *(f"{scores[column]:.1f}" for column in rows[0][2:])])
    return aligned(rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table and writes it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, help="corpus: train, valid and test file")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="JSON file")
    parser.add_argument("--seed", type=int, default=1, help="of the shuffling")
    flags = parser.parse_args(arguments)
    found = measure(flags.folder, flags.seed)
    for population, facts in found["text"].items():
        print(
            f"{population}: {100 * facts['share_read']:.1f} % of the words are read, "
            f"{100 * facts['share_start_to_start']:.1f} % of the predictions are of a start."
        )
    print(f"\n{table(found['perplexity'])}")
    files.write_atomically(flags.out, [json.dumps(found, indent=1).encode(), b"\n"])


if __name__ == "__main__":
    main()
