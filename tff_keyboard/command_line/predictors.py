"""Opens the models named on a command line as `Predictor`s.

`tff_keyboard/evaluation/model_specs/references.py` describes the names. Baselines and hybrids are
trained here on the pooled text of a store's train clients.

A package can register a function for another kind of file, by its suffix:

    [project.entry-points."tff_keyboard.model_files"]
    trie = "my_package.trie:open_trie"

The function takes the path, the name of the model, and the vocabularies of the models before it. It
returns a `NamedPredictor`.
"""

import contextlib
import dataclasses
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tff_keyboard.evaluation.model_specs import references
from tff_keyboard.host import quiet
from tff_keyboard.storage import entry_points
from tff_keyboard.storage.errors import ExportError, UsageError

if TYPE_CHECKING:
    from tff_keyboard.data.store.client_store import ClientStore
    from tff_keyboard.data.vocabulary import Vocabulary
    from tff_keyboard.evaluation.model_specs.named_predictor import NamedPredictor


def open_predictors(words: Sequence[str], store: "ClientStore | None") -> "list[NamedPredictor]":
    """Opens each model. Baselines use the vocabulary of `store`.

    Args:
      words: Names of models.
      store: The store that baselines and hybrids are trained on.

    Raises:
      UsageError: If a name is neither a model nor a baseline, if a name occurs twice, or if a
        baseline has no store.
      DataError, SavedModelError, ExportError: If a model is damaged.
    """
    from tff_keyboard.evaluation.model_specs import baselines

    references.check_words(words)
    trained = [word for word in words if references.is_trained_here(word)]
    if trained and store is None:
        raise UsageError(
            f"'{trained[0]}' is trained on the train clients of a store. Pass --store=DIR."
        )
    specs = {word: baselines.read_spec(word) for word in trained}
    text = baselines.read_train_text(store) if trained and store is not None else None
    opened: list[NamedPredictor] = []
    for word, name in zip(words, references.names_of(words), strict=True):
        path = references.path_of(word)
        if path is None:
            assert store is not None
            assert text is not None
            opened.append(baselines.open_baseline(word, name, specs[word], text, store))
            continue
        vocabularies = [named.predictor.vocabulary for named in opened]
        vocabularies += [store.vocabulary] if store else []
        model = _open_path(path, name, vocabularies, alone=references.is_network_alone(word))
        model = dataclasses.replace(model, source=word)
        if word in specs:
            assert store is not None
            assert text is not None
            model = baselines.join_hybrid(model, specs[word], text, store)
        opened.append(model)
    return opened


def _open_path(
    path: pathlib.Path, name: str, vocabularies: "Sequence[Vocabulary]", *, alone: bool
) -> "NamedPredictor":
    """Opens the file or directory of a model with the function for its suffix.

    `alone` leaves out the n-gram and the lexicon of an exported file.
    """
    if path.suffix == references.TFLITE_SUFFIX:
        return _open_tflite(path, name, vocabularies, alone=alone)
    if path.suffix == references.NGRAM_SUFFIX:
        return _open_ngram(path, name)
    if path.suffix in references.registered_suffixes():
        return _open_registered(path, name, vocabularies)
    return _open_keras(path, name)


def _open_tflite(
    path: pathlib.Path, name: str, vocabularies: "Sequence[Vocabulary]", *, alone: bool
) -> "NamedPredictor":
    """Opens an exported file, without its n-gram and lexicon if `alone`.

    If one of `vocabularies` has the same words, the predictor uses its ids, so that the two models
    are compared word by word and break ties in the same way.
    """
    from tff_keyboard.evaluation.model_specs.named_predictor import NamedPredictor
    from tflite_export.runtime import libcifg
    from tflite_export.runtime.hybrid_keyboard import with_parts
    from tflite_export.runtime.keyboard_predictor import KeyboardPredictor

    predictor = KeyboardPredictor(path)
    exported = predictor.vocabulary
    for vocabulary in vocabularies:
        if vocabulary.rules == exported.rules and set(vocabulary.words) == set(exported.words):
            predictor = KeyboardPredictor(path, vocabulary)
            break
    library = libcifg.built_library()
    if library is not None:
        with contextlib.suppress(ExportError):  # the interpreter reads every file, but more slowly
            predictor.read_states_with(library)
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


def _open_registered(
    path: pathlib.Path, name: str, vocabularies: "Sequence[Vocabulary]"
) -> "NamedPredictor":
    """Opens a file with the function that a package registered for its suffix."""
    open_file = entry_points.find(references.FILE_GROUP)[path.suffix[1:]].load()
    model: NamedPredictor = open_file(path, name, vocabularies)
    return model


def _open_ngram(path: pathlib.Path, name: str) -> "NamedPredictor":
    from tff_keyboard.evaluation.model_specs.baselines import ngram_details
    from tff_keyboard.evaluation.model_specs.named_predictor import NamedPredictor
    from tff_keyboard.predictors.ngram import ngram_file
    from tff_keyboard.predictors.ngram.ngram_predictor import NGramPredictor

    ngram = NGramPredictor(*ngram_file.load(path))
    details = ngram_details(ngram) | {"bytes": path.stat().st_size}
    return NamedPredictor(name, "ngram", ngram, details, str(path))


def _open_keras(path: pathlib.Path, name: str) -> "NamedPredictor":
    from tff_keyboard.evaluation.model_specs.named_predictor import NamedPredictor

    quiet.import_tensorflow()
    from tff_keyboard.models.saved_model import load_model
    from tff_keyboard.predictors.keras_predictor import KerasPredictor

    model, vocabulary = load_model(path)
    parameters = sum(int(variable.shape.num_elements()) for variable in model.trainable_variables)
    details = {"architecture": model.name_in_registry, "parameters": parameters}
    return NamedPredictor(name, "keras", KerasPredictor(model, vocabulary), details, str(path))
