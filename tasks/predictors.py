"""Opens whatever a person calls a model, as a `Predictor`.

A run directory or a saved model, a directory or file with an n-gram, a `.tflite` file; or a
baseline by name, trained here from the pooled text of a store's train clients: `ngram` (order 5),
`ngram:3` (order 3), `ngram:1.25M` (pruned to so many n-grams), `ngram:1.44MB` (pruned and rounded
to a file of so many bytes), `unigram`.

`hybrid:PATH` puts a run or a `.tflite` file behind one strip with an n-gram file of 500 kB
(`hybrid:1.44MB:PATH` of another size) trained likewise, and a cache that learns each person's
words as they type; how far each is believed is fitted on the store's validation people.
"""

import dataclasses
import pathlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tff_keyboard.storage import names
from tff_keyboard.storage.errors import UsageError

if TYPE_CHECKING:
    from tff_keyboard.baselines.ngram_spec import NGramSpec
    from tff_keyboard.data.store.client_store import ClientStore
    from tff_keyboard.data.vocabulary import Vocabulary
    from tff_keyboard.metrics.predictor import Predictor

NGRAM_SUFFIX = ".ngram"

_HYBRID = re.compile(r"hybrid:(?:(?P<size>[0-9.]+[kM]B):)?(?P<path>.+)")
_HYBRID_SIZE = "500kB"
_FIT_WORDS = 60_000  # of validation people; more change no weight in the second digit


@dataclasses.dataclass(frozen=True)
class NamedPredictor:
    """A model with what a table says about it."""

    name: str
    kind: str
    predictor: "Predictor"
    details: dict[str, Any]
    source: str  # as the person wrote it


def is_baseline(word: str) -> bool:
    """Whether `word` names a baseline rather than a path.

    >>> [is_baseline(word) for word in ("unigram", "ngram", "ngram:3", "runs/ngram")]
    [True, True, True, False]
    """
    return word in ("unigram", "ngram") or word.startswith("ngram:")


def is_trained_here(word: str) -> bool:
    """Whether opening `word` takes a store: a baseline, or the n-gram of a hybrid."""
    return is_baseline(word) or _HYBRID.fullmatch(word) is not None


def path_of(word: str) -> pathlib.Path | None:
    """The run or file that a word names; None for a baseline.

    >>> path_of("hybrid:1.44MB:runs/sms"), path_of("ngram:3"), path_of("runs/sms")
    (PosixPath('runs/sms'), None, PosixPath('runs/sms'))
    """
    match = _HYBRID.fullmatch(word)
    if match is not None:
        return pathlib.Path(match["path"])
    return None if is_baseline(word) else pathlib.Path(word)


def check_words(words: Sequence[str]) -> None:
    """Refuses what no model can be, before anything heavy is imported.

    Raises:
      UsageError: A word is given twice, or names neither a baseline nor something that is there.
    """
    if len(set(words)) < len(words):
        raise UsageError("A model is given twice; every difference to itself is zero.")
    for word in words:
        is_file = word.endswith((NGRAM_SUFFIX, ".tflite"))  # whose reader says what is missing
        path = path_of(word)
        if path is not None and not is_file and not path.is_dir():
            raise UsageError(
                f"'{word}' is no model: give a run directory, a .tflite or .ngram file, or one of "
                "the baselines 'ngram', 'ngram:3', 'ngram:1.25M', 'ngram:1.44MB' and 'unigram'."
            )


def names_of(words: Sequence[str]) -> list[str]:
    """Short names of models: the last part of a path where that tells them apart.

    >>> names_of(["runs/sms/", "ngram", "a/keyboard.tflite", "b/keyboard.tflite"])
    ['sms', 'ngram', 'a/keyboard.tflite', 'b/keyboard.tflite']
    >>> names_of(["runs/sms/", "hybrid:runs/sms"])
    ['sms', 'hybrid:sms']
    """
    short = []
    for word in words:
        path = path_of(word)
        kind = "hybrid:" if _HYBRID.fullmatch(word) else ""
        short.append(kind + path.name if path is not None and path.name else word)
    return [
        name if short.count(name) == 1 else word for name, word in zip(short, words, strict=True)
    ]


def open_predictors(words: Sequence[str], store: "ClientStore | None") -> list[NamedPredictor]:
    """Opens each model; baselines take the vocabulary of `store`.

    Raises:
      UsageError: A word is neither a model nor a baseline, or is given twice, or a baseline has no
        store to be trained from.
      DataError, SavedModelError, ExportError: A model is damaged.
    """
    check_words(words)
    specs = {word: _parse_baseline(word, store) for word in words if is_trained_here(word)}
    messages = store.all_examples("train") if specs and store is not None else []
    opened: list[NamedPredictor] = []
    for word, name in zip(words, names_of(words), strict=True):
        if is_baseline(word):
            assert store is not None
            opened.append(_train_baseline(word, name, specs[word], messages, store.vocabulary))
            continue
        known = [named.predictor.vocabulary for named in opened]
        path = path_of(word)
        assert path is not None
        model = _open_path(str(path), name, [*known, *([store.vocabulary] if store else [])])
        if word in specs:
            assert store is not None
            model = _hybrid(word, model, specs[word], messages, store)
        opened.append(model)
    return opened


def _open_path(word: str, name: str, known: "Sequence[Vocabulary]") -> NamedPredictor:
    if word.endswith(NGRAM_SUFFIX):
        return _open_ngram_file(word, name)
    if word.endswith(".tflite"):
        return _open_tflite(word, name, known)
    return _open_directory(word, name)


def _parse_baseline(word: str, store: "ClientStore | None") -> "NGramSpec":
    from tff_keyboard.baselines import ngram_spec

    if store is None:
        raise UsageError(f"'{word}' is trained on a store's train clients: give --store=DIR.")
    match = _HYBRID.fullmatch(word)
    if match is not None:
        word = f"ngram:{match['size'] or _HYBRID_SIZE}"
    try:
        return ngram_spec.parse(word)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _train_baseline(
    word: str, name: str, spec: "NGramSpec", messages: list, vocabulary: "Vocabulary"
) -> NamedPredictor:
    from tff_keyboard.baselines import ngram_spec

    try:
        predictor, data = ngram_spec.train(spec, messages, vocabulary)
    except ValueError as error:
        raise UsageError(f"'{word}': {error}") from None
    details = _ngram_details(predictor)
    if data is not None:
        details["bytes"] = len(data)
    return NamedPredictor(name, "ngram", predictor, details, word)


def _hybrid(
    word: str, model: NamedPredictor, spec: "NGramSpec", messages: list, store: "ClientStore"
) -> NamedPredictor:
    """A network with an n-gram and a cache, weights fitted on validation people."""
    from tff_keyboard.baselines.ngram_predictor import NGramPredictor
    from tff_keyboard.evaluation import typed_text
    from tff_keyboard.hybrid import mixture, streaming
    from tff_keyboard.hybrid.hybrid_predictor import HybridPredictor, Network
    from tff_keyboard.progress import Progress

    ngram = _train_baseline(word, model.name, spec, messages, store.vocabulary)
    assert isinstance(ngram.predictor, NGramPredictor)
    if not isinstance(model.predictor, Network) or model.kind == "ngram":
        raise UsageError(f"'{word}': a hybrid takes a run directory or a .tflite file.")
    try:
        hybrid = HybridPredictor(model.predictor, ngram.predictor, mixture.EQUAL)
    except ValueError as error:
        raise UsageError(f"'{word}': {error}") from None
    text = typed_text.first_people(
        typed_text.of_population(store, "validation"), max_words=_FIT_WORDS
    )
    with Progress(f"fit {model.name}", total=text.num_words, unit="words") as line:
        hybrid.weights = streaming.fit_weights(
            hybrid, text, progress=lambda done, total: line.update(text.num_words * done / total)
        )
    details = {
        **model.details,
        "ngrams": ngram.details["ngrams"],
        "ngram_bytes": ngram.details["bytes"],
        "weights": hybrid.weights.to_json(),
        "weights_fitted_on": f"{len(text.people)} people of 'validation'",
    }
    return NamedPredictor(model.name, "hybrid", hybrid, details, word)


def _open_tflite(word: str, name: str, known: "Sequence[Vocabulary]") -> NamedPredictor:
    """An exported file; in the ids of a known vocabulary where that holds the same words, so that
    the two are compared word by word and rank ties alike."""
    from tflite_export.runtime import KeyboardPredictor

    path = pathlib.Path(word)
    predictor = KeyboardPredictor(path)
    own = predictor.vocabulary
    for vocabulary in known:
        if vocabulary.rules == own.rules and set(vocabulary.words) == set(own.words):
            predictor = KeyboardPredictor(path, vocabulary)
            break
    return NamedPredictor(name, "tflite", predictor, {"bytes": path.stat().st_size}, word)


def _open_ngram_file(word: str, name: str) -> NamedPredictor:
    from tff_keyboard.baselines.ngram_predictor import NGramPredictor

    ngram = NGramPredictor.load(word)
    details = {**_ngram_details(ngram), "bytes": pathlib.Path(word).stat().st_size}
    return NamedPredictor(name, "ngram", ngram, details, word)


def _open_directory(word: str, name: str) -> NamedPredictor:
    path = pathlib.Path(word)
    from tff_keyboard.baselines import ngram_predictor

    if (path / names.NGRAM).is_file():
        ngram = ngram_predictor.NGramPredictor.load(path)
        return NamedPredictor(name, "ngram", ngram, _ngram_details(ngram), word)
    from tff_keyboard.metrics.keras_predictor import KerasPredictor
    from tff_keyboard.models.saved_model import load_model

    model, vocabulary = load_model(path)
    parameters = sum(int(variable.shape.num_elements()) for variable in model.trainable_variables)
    details = {"architecture": model.name_in_registry, "parameters": parameters}
    return NamedPredictor(name, "keras", KerasPredictor(model, vocabulary), details, word)


def _ngram_details(predictor) -> dict[str, Any]:
    return {"order": predictor.model.order, "ngrams": predictor.model.num_ngrams}
