"""A small export with an n-gram, and its parts, for tests of the hybrid on a phone."""

import dataclasses

import numpy as np

from tests.support.keyboard import export_fakes
from tests.support.keyboard.export_fakes import export
from tff_keyboard.predictors.hybrid.mixture import BUCKETS, CACHE, COMPONENTS, FAMILIARITIES
from tff_keyboard.predictors.ngram import ngram_file
from tff_keyboard.predictors.ngram.kneser_ney import KneserNey
from tflite_export.export.export_options import ExportOptions
from tflite_export.export.ngram_part import NGramPart
from tflite_export.format import manifest
from tflite_export.format.manifest_content import MixtureFacts, NGramFacts


def weights():
    """Lambdas under which the cache has a say."""
    table = np.tile([0.4, 0.3, 0.3], [BUCKETS, 1])
    table[::FAMILIARITIES] = [0.6, 0.4, 0.0]
    assert np.all(table[::FAMILIARITIES, CACHE] == 0)
    return table.tolist()


def part(seed=0):
    """An n-gram of the sentences, in the ids of the run."""
    vocabulary = export_fakes.vocabulary()
    rng = np.random.default_rng(seed)
    messages = [np.array(vocabulary.encode(s.split())) for s in export_fakes.SENTENCES]
    text = [messages[i] for i in rng.integers(len(messages), size=80)]
    model = KneserNey.train(text, vocabulary_size=len(vocabulary), order=4)
    data = ngram_file.encode(model, vocabulary)
    facts = NGramFacts(
        order=4,
        ngrams=model.num_ngrams,
        trained_on="tests",
        min_clients=1,
        bytes=len(data),
        sha256=manifest.sha256(data),
    )
    mixed = MixtureFacts(components=list(COMPONENTS), weights=weights(), fitted_on="tests")
    return NGramPart(data, facts, mixed)


def export_hybrid(folder, *, seed=1, held_out=None, tail=None, **options):
    """The path of the model of an export with an n-gram, and with a tail lexicon if given."""
    run = export_fakes.save_run(folder / f"run {seed}", seed)
    chosen = dataclasses.replace(ExportOptions(quantization="none"), **options)
    path = folder / f"hybrid{seed}.tflite"
    return export(run, path, chosen, ngram=part(), tail=tail, held_out=held_out).paths.model
