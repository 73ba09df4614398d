"""Opens whatever a person calls a model, as a `Predictor`.

`tff_keyboard/evaluation/named/references.py` has the words; baselines and hybrids are trained here,
from the pooled text of a store's train clients.
"""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tff_keyboard.evaluation.named import references
from tff_keyboard.host import quiet
from tff_keyboard.storage import names
from tff_keyboard.storage.errors import UsageError

if TYPE_CHECKING:
    from tff_keyboard.data.store.client_store import ClientStore
    from tff_keyboard.data.vocabulary import Vocabulary
    from tff_keyboard.evaluation.named.named_predictor import NamedPredictor


def open_predictors(
    words: Sequence[str], store: "ClientStore | None", word_list: pathlib.Path | None = None
) -> "list[NamedPredictor]":
    """Opens each model; baselines take the vocabulary of `store`.

    Args:
      words: Names of models.
      store: The store that baselines and hybrids are trained on.
      word_list: Public list for the lexicons of hybrids.

    Raises:
      UsageError: A word is neither a model nor a baseline, or is given twice, or a baseline has no
        store to be trained from.
      DataError, SavedModelError, ExportError: A model is damaged.
    """
    from tff_keyboard.evaluation.named import trained_here

    references.check_words(words)
    trained = [word for word in words if references.is_trained_here(word)]
    if trained and store is None:
        raise UsageError(f"'{trained[0]}' is trained on a store's train clients: give --store=DIR.")
    specs = {word: trained_here.read_spec(word) for word in trained}
    text = trained_here.read_train_text(store) if trained and store is not None else None
    opened: list[NamedPredictor] = []
    for word, name in zip(words, references.names_of(words), strict=True):
        path = references.path_of(word)
        if path is None:
            assert store is not None
            assert text is not None
            opened.append(trained_here.open_baseline(word, name, specs[word], text, store))
            continue
        known = [named.predictor.vocabulary for named in opened]
        known += [store.vocabulary] if store else []
        model = _open_path(path, name, known, alone=references.is_network_alone(word))
        model = dataclasses.replace(model, source=word)
        if word in specs:
            assert store is not None
            assert text is not None
            tail = None
            if references.has_tail(word):
                tail = trained_here.count_tail(store, trained_here.TAIL_WORDS, word_list)
            model = trained_here.join_hybrid(model, specs[word], text, store, tail)
        opened.append(model)
    return opened


def _open_path(
    path: pathlib.Path, name: str, known: "Sequence[Vocabulary]", *, alone: bool
) -> "NamedPredictor":
    if path.suffix == references.TFLITE_SUFFIX:
        return _open_tflite(path, name, known, alone=alone)
    if path.suffix == references.COMBINED_SUFFIX:
        return _open_word_list(path, name, known)
    if path.suffix == references.NGRAM_SUFFIX or (path / names.NGRAM).is_file():
        return _open_ngram(path, name)
    return _open_keras(path, name)


def _open_tflite(
    path: pathlib.Path, name: str, known: "Sequence[Vocabulary]", *, alone: bool
) -> "NamedPredictor":
    """An exported file; in the ids of a known vocabulary where that holds the same words, so that
    the two are compared word by word and rank ties alike."""
    from tff_keyboard.evaluation.named.named_predictor import NamedPredictor
    from tflite_export.runtime.hybrid_keyboard import with_parts
    from tflite_export.runtime.keyboard_predictor import KeyboardPredictor

    predictor = KeyboardPredictor(path)
    own = predictor.vocabulary
    for vocabulary in known:
        if vocabulary.rules == own.rules and set(vocabulary.words) == set(own.words):
            predictor = KeyboardPredictor(path, vocabulary)
            break
    details = {"bytes": path.stat().st_size}
    if alone:
        return NamedPredictor(name, "tflite", predictor, details, str(path))
    ngram, tail = predictor.manifest.ngram, predictor.manifest.tail
    if tail is not None:
        details["tail_bytes"] = tail.bytes
    if ngram is not None:
        details["ngram_bytes"] = ngram.bytes
    kind = "tflite" if ngram is None else "hybrid"
    return NamedPredictor(name, kind, with_parts(predictor), details, str(path))


def _open_word_list(
    path: pathlib.Path, name: str, known: "Sequence[Vocabulary]"
) -> "NamedPredictor":
    """A dictionary in its keyboard's lookup, of text cut into words as the first model's."""
    from tff_keyboard.data.vocabulary import NormalisationRules
    from tff_keyboard.evaluation.named.named_predictor import NamedPredictor
    from tff_keyboard.predictors.aosp import combined_file
    from tff_keyboard.predictors.aosp.engine import AospPredictor

    words = combined_file.read(path)
    rules = known[0].rules if known else NormalisationRules()
    details = {"bytes": path.stat().st_size, "words": len(words.words)}
    details["bigrams"] = words.num_bigrams
    return NamedPredictor(name, "aosp", AospPredictor(words, rules), details, str(path))


def _open_ngram(path: pathlib.Path, name: str) -> "NamedPredictor":
    from tff_keyboard.evaluation.named.named_predictor import NamedPredictor
    from tff_keyboard.evaluation.named.trained_here import ngram_details
    from tff_keyboard.predictors.ngram.ngram_predictor import NGramPredictor

    ngram = NGramPredictor.load(path)
    details = ngram_details(ngram)
    if path.suffix == references.NGRAM_SUFFIX:
        details["bytes"] = path.stat().st_size
    return NamedPredictor(name, "ngram", ngram, details, str(path))


def _open_keras(path: pathlib.Path, name: str) -> "NamedPredictor":
    from tff_keyboard.evaluation.named.named_predictor import NamedPredictor

    quiet.import_tensorflow()
    from tff_keyboard.models.saved_model import load_model
    from tff_keyboard.predictors.keras_predictor import KerasPredictor

    model, vocabulary = load_model(path)
    parameters = sum(int(variable.shape.num_elements()) for variable in model.trainable_variables)
    details = {"architecture": model.name_in_registry, "parameters": parameters}
    return NamedPredictor(name, "keras", KerasPredictor(model, vocabulary), details, str(path))
