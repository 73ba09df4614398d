"""First cases for the fuzzer of libcifg's readers, and the export that some of them need.

    python -m libcifg.tests.fuzz_seeds out
    KEYBOARD=out/keyboard make -f libcifg/build.mk OUT=out fuzz FUZZ=ngram

Of each packed file there is one whose streams are stored as they are: a byte that the fuzzer
changes in it is a byte of words or counts.
"""

import dataclasses
import pathlib
import sys
import zlib
from collections.abc import Callable
from unittest import mock

import numpy as np

from libcifg.tests import vectors
from tests.support.keyboard import export_fakes, hybrid_export
from tff_keyboard.data.vocabulary import LANGUAGES
from tff_keyboard.predictors.hybrid.word_cache import WordCache
from tff_keyboard.predictors.tail_lexicon import of_steps
from tff_keyboard_app.keyboard import cache_file
from tflite_export.export.tail_part import TailPart
from tflite_export.format import manifest, tail_file, vocabulary_file
from tflite_export.format.manifest_content import TailFacts
from tflite_export.graphs import row_scaled, trainable
from tflite_export.graphs.cifg_weights import CifgWeights
from tflite_export.graphs.quantization import quantize_rows

BEYOND_THE_TABLE = ["johannisburg", "see-through", "toad", "überall"]
compress = zlib.compress


def at(level: int) -> Callable[..., bytes]:
    """Returns `zlib.compress` with a fixed level."""
    return lambda data, **_: compress(data, level)


def write(folder: pathlib.Path) -> None:
    """Fills `folder/seeds/READER/`, and writes `folder/keyboard.tflite` with its other files."""
    options = {"tail": tail(), "quantization": "int8-rows"}
    for path in hybrid_export.export_hybrid(folder, **options).parent.glob("hybrid1.*"):
        path.rename(folder / f"keyboard{path.suffix}")
    for reader, cases in seeds(folder).items():
        (folder / "seeds" / reader).mkdir(parents=True, exist_ok=True)
        for number, case in enumerate(cases):
            (folder / "seeds" / reader / f"seed{number}").write_bytes(case)


def seeds(folder: pathlib.Path) -> dict[str, list[bytes]]:
    """Returns the seeds for each reader, a function of `tests/fuzz.cc`."""
    found = {"model": [*models().values()], "vocabulary": [], "ngram": [], "tail": []}
    for level in (0, 9):
        with mock.patch.object(zlib, "compress", at(level)):
            for language in LANGUAGES:
                words = vocabulary_file.sorted_vocabulary(export_fakes.vocabulary(language))
                found["vocabulary"].append(vocabulary_file.encode(words))
            found["ngram"].append(hybrid_export.part().data)
            found["tail"].append(tail().data)
    cache = WordCache()
    for message in vectors.LEARNT:
        cache.observe([word if word and "7" not in word else None for word in message], ["car"])
    cache_file.save(cache, folder / "cache")
    texts = [text.encode() for text in (*vectors.TEXTS, *vectors.TYPED)]
    described = (folder / "keyboard.json").read_bytes()
    return found | {
        "cache": [(folder / "cache").read_bytes()],
        "text": texts,
        "manifest": [described],
    }


def models() -> dict[str, bytes]:
    """Returns model files of one set of weights, in every format that libcifg reads."""
    weights = CifgWeights.from_model(export_fakes.model())
    table = weights.embedding[vocabulary_file.sorted_rows(export_fakes.vocabulary())]
    weights = dataclasses.replace(weights, embedding=table)
    return {
        "int8-rows": row_scaled.build(weights, quantize_rows(table), top_k=3),
        "trainable": trainable.build(weights, top_k=3),
    }


def tail() -> TailPart:
    """Returns a lexicon of a few words."""
    data = tail_file.encode(of_steps(BEYOND_THE_TABLE, np.arange(20, 60, 10, np.uint8)))
    size = len(BEYOND_THE_TABLE)
    sha256 = manifest.sha256(data)
    facts = TailFacts(
        words=size, counted_on="tests", word_list=None, bytes=len(data), sha256=sha256
    )
    return TailPart(data, facts)


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]))
