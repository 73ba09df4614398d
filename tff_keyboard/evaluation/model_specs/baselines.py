"""Models that are trained when they are opened: an n-gram, or a network combined with one.

Both use the pooled text of a store's train clients. The mixture weights of a hybrid are fitted on
the store's validation clients. The n-gram of a hybrid is sent to phones and lists nothing that only
one user typed (`predictors/ngram/ngram_pruning.py`); it is the same here and in an export. A
baseline stays on this machine and lists everything; it may contain more words than the store's
vocabulary, and the user's own words (`references.py`).
"""

import collections
import dataclasses
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.vocabulary import NUM_SPECIAL, Vocabulary, is_mask
from tff_keyboard.evaluation.counts import hybrid_stream, typed_text
from tff_keyboard.evaluation.model_specs import references
from tff_keyboard.evaluation.model_specs.named_predictor import NamedPredictor
from tff_keyboard.host.progress import Progress
from tff_keyboard.predictors.hybrid import mixture
from tff_keyboard.predictors.hybrid.hybrid_predictor import HybridPredictor, Network
from tff_keyboard.predictors.ngram import ngram_spec
from tff_keyboard.predictors.ngram.ngram_predictor import NGramPredictor
from tff_keyboard.storage.errors import UsageError

MIN_CLIENTS = 2  # minimum number of users of an n-gram that a hybrid lists

_FIT_WORDS = 60_000  # of validation clients; more words change no weight in the second digit
_FIT_WORDS_OF_ONE = 1_000  # per client, so that the words come from many clients


class TrainText(NamedTuple):
    """The text of a store's train clients."""

    messages: list[np.ndarray]  # word ids of each message, [words] int
    owners: list[int]  # client of each message, a number from 0 on


def read_train_text(store: ClientStore) -> TrainText:
    """Reads the text of all train clients. Raises `DataError` if there is none."""
    counts = store.num_messages("train")
    owners = np.repeat(np.arange(len(counts)), counts).tolist()
    return TrainText(store.all_messages("train"), owners)


def read_spec(word: str) -> ngram_spec.NGramSpec:
    """Returns the n-gram spec of a baseline or a hybrid. Raises `UsageError` if it is invalid."""
    try:
        return ngram_spec.parse(references.ngram_of(word))
    except ValueError as error:
        raise UsageError(str(error)) from None


def open_baseline(
    word: str, name: str, spec: ngram_spec.NGramSpec, text: TrainText, store: ClientStore
) -> NamedPredictor:
    """Opens the n-gram that `word` names, with the words it includes.

    With the user's own words it is a hybrid without a network: n-gram and cache, with weights
    fitted on the store's validation clients.

    Args:
      word: The name on the command line.
      name: Short name for tables.
      spec: Result of `read_spec`.
      text: Result of `read_train_text` for the store.
      store: The store.

    Raises:
      UsageError: If the n-gram cannot be as small as requested.
      DataError: If there are no clients to fit weights on.
    """
    vocabulary, messages = store.vocabulary, text.messages
    if references.has_every_word(word):
        typed = [store.words("train", client) for client in store.client_ids("train")]
        vocabulary, messages = every_word(list(itertools.chain(*typed)), vocabulary)
    baseline = train_baseline(word, name, spec, messages, vocabulary)
    if not references.has_own_words(word):
        return baseline
    ngram = baseline.predictor
    assert isinstance(ngram, NGramPredictor)
    hybrid = HybridPredictor(ngram, ngram, mixture.EQUAL)  # the n-gram gets both weights
    fitted_on = fit_on_validation(hybrid, store, name)
    details = {
        **baseline.details,
        "weights": hybrid.weights.to_json(),
        "weights_fitted_on": fitted_on,
    }
    return dataclasses.replace(baseline, kind="hybrid", predictor=hybrid, details=details)


def every_word(
    messages: Sequence[Sequence[str]], vocabulary: Vocabulary
) -> tuple[Vocabulary, list[np.ndarray]]:
    """Returns a vocabulary of all words in some messages, and the messages in its ids.

    The rows of `vocabulary` come first, in order, so that ties are resolved in the same way. Masks
    are OOV.
    """
    counts = collections.Counter(itertools.chain(*messages))
    table_words = set(vocabulary.words)
    further = {word: count for word, count in counts.items() if word not in table_words}
    words = vocabulary.words
    if any(not is_mask(word) for word in further):
        size = NUM_SPECIAL + len(further)
        words += Vocabulary.from_counts(further, size, vocabulary.rules).words[NUM_SPECIAL:]
    table = Vocabulary(words, vocabulary.rules)
    return table, [np.array(table.encode(message), np.int32) for message in messages]


def train_baseline(
    word: str,
    name: str,
    spec: ngram_spec.NGramSpec,
    messages: Sequence[np.ndarray],
    vocabulary: Vocabulary,
) -> NamedPredictor:
    """Trains an n-gram as a baseline; `word` is its name on the command line.

    Raises `UsageError` if it cannot be as small as requested.
    """
    try:
        predictor, data = ngram_spec.train(spec, messages, vocabulary)
    except ValueError as error:
        raise UsageError(f"'{word}': {error}") from None
    details = ngram_details(predictor)
    if data is not None:
        details["bytes"] = len(data)
    return NamedPredictor(name, "ngram", predictor, details, word)


def train_for_hybrid(
    spec: ngram_spec.NGramSpec, text: TrainText, vocabulary: Vocabulary
) -> tuple[NGramPredictor, bytes]:
    """Trains the n-gram of a hybrid, with a spec in bytes.

    Returns the n-gram as read from its file, and the content of the file. Raises `ValueError` if
    the vocabulary alone is larger than the requested size.
    """
    predictor, data = ngram_spec.train(
        spec, text.messages, vocabulary, owners=text.owners, min_clients=MIN_CLIENTS
    )
    assert data is not None, spec
    return predictor, data


def join_hybrid(
    model: NamedPredictor,
    spec: ngram_spec.NGramSpec,
    text: TrainText,
    store: ClientStore,
) -> NamedPredictor:
    """Combines a network with an n-gram and a cache. Fits the weights on the validation clients.

    Args:
      model: The network. Its `source` is the name of the hybrid.
      spec: The n-gram.
      text: The train text of the store.
      store: The store.

    Raises:
      UsageError: If `model` is not a network, or has another vocabulary than the store.
      DataError: If the store has no validation clients.
    """
    word = model.source
    if not isinstance(model.predictor, Network) or model.kind == "ngram":
        raise UsageError(f"'{word}': a hybrid requires a run directory or a .tflite file.")
    try:
        ngram, data = train_for_hybrid(spec, text, store.vocabulary)
        hybrid = HybridPredictor(model.predictor, ngram, mixture.EQUAL)
    except ValueError as error:
        raise UsageError(f"'{word}': {error}") from None
    fitted_on = fit_on_validation(hybrid, store, model.name)
    details = {**model.details, "ngrams": ngram.model.num_ngrams, "ngram_bytes": len(data)}
    details |= {"weights": hybrid.weights.to_json(), "weights_fitted_on": fitted_on}
    return dataclasses.replace(model, kind="hybrid", predictor=hybrid, details=details)


def fit_on_validation(hybrid: HybridPredictor, store: ClientStore, name: str) -> str:
    """Sets the mixture weights that maximise the likelihood of the validation clients' text.

    Returns a description of the clients. Raises `DataError` if the store has no validation clients.
    """
    everybody = typed_text.of_population(store, "validation")
    text = typed_text.first_clients(
        typed_text.first_words(everybody, _FIT_WORDS_OF_ONE), max_words=_FIT_WORDS
    )
    with Progress(f"fit {name}", total=text.num_words, unit="words") as line:
        hybrid.weights = hybrid_stream.fit_weights(
            hybrid, text, progress=lambda done, total: line.update(text.num_words * done / total)
        )
    return f"{len(text.clients)} clients of 'validation'"


def ngram_details(predictor: NGramPredictor) -> dict[str, object]:
    """Returns facts about an n-gram: its order, and the number of n-grams per length."""
    return {"order": predictor.model.order, "ngrams": predictor.model.num_ngrams}
