"""Models that are trained as soon as they are named: an n-gram, or a network joined with one.

Both take the pooled text of a store's train clients; a hybrid's weights, which say how far each of
its parts is believed, are fitted on the store's validation people. The n-gram of a hybrid goes on
phones and lists nothing that one person alone typed (`predictors/ngram/ngram_people.py`); it is the
same here and in an export. A baseline stays here and lists everything; it may know more words than
the store's table, and the person's own (`references.py`).
"""

import collections
import dataclasses
import itertools
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.text.word_list import read_word_list
from tff_keyboard.data.vocabulary import NUM_SPECIAL, Vocabulary, is_mask
from tff_keyboard.evaluation.counts import hybrid_stream, typed_text
from tff_keyboard.evaluation.named import references
from tff_keyboard.evaluation.named.named_predictor import NamedPredictor
from tff_keyboard.host.progress import Progress
from tff_keyboard.predictors.hybrid import mixture
from tff_keyboard.predictors.hybrid.hybrid_predictor import HybridPredictor, Network
from tff_keyboard.predictors.ngram import ngram_spec
from tff_keyboard.predictors.ngram.ngram_predictor import NGramPredictor
from tff_keyboard.predictors.tail_lexicon import TailLexicon, counted
from tff_keyboard.storage.errors import UsageError

LEAST_PEOPLE = 2  # who typed an n-gram or a word, for a hybrid to list it
TAIL_WORDS = 20_000  # of a lexicon, where nobody says

_FIT_WORDS = 60_000  # of validation people; more change no weight in the second digit
_FIT_WORDS_OF_ONE = 1_000  # so that where people write much, many of them are heard


class TrainText(NamedTuple):
    """What the train clients of a store typed."""

    messages: list[np.ndarray]  # ids of the words of each message, [words] int
    owners: list[int]  # person of each message, a number from 0 on


def read_train_text(store: ClientStore) -> TrainText:
    """All of it, or a `DataError` where there is none."""
    counts = store.num_examples("train")
    owners = np.repeat(np.arange(len(counts)), counts).tolist()
    return TrainText(store.all_examples("train"), owners)


def read_spec(word: str) -> ngram_spec.NGramSpec:
    """The n-gram that `word`, a baseline or a hybrid, asks for, or a `UsageError`."""
    try:
        return ngram_spec.parse(references.ngram_of(word))
    except ValueError as error:
        raise UsageError(str(error)) from None


def open_baseline(
    word: str, name: str, spec: ngram_spec.NGramSpec, text: TrainText, store: ClientStore
) -> NamedPredictor:
    """The n-gram that `word`, as the person wrote it, names, with the words it asks for.

    With the person's own words it is a hybrid without a network: n-gram and cache, weights fitted
    on the store's validation people. `text` is `read_train_text` of the store. Raises `UsageError`
    if it cannot be as small as asked for, `DataError` if there are no people to fit weights on.
    """
    vocabulary, messages = store.vocabulary, text.messages
    if references.has_every_word(word):
        typed = [store.words("train", person) for person in store.client_ids("train")]
        vocabulary, messages = every_word(list(itertools.chain(*typed)), vocabulary)
    named = train_baseline(word, name, spec, messages, vocabulary)
    if not references.has_own_words(word):
        return named
    ngram = named.predictor
    assert isinstance(ngram, NGramPredictor)
    hybrid = HybridPredictor(ngram, ngram, mixture.EQUAL)  # the n-gram's weight is that of both
    fitted_on = fit_on_validation(hybrid, store, name)
    details = {**named.details, "weights": hybrid.weights.to_json(), "weights_fitted_on": fitted_on}
    return dataclasses.replace(named, kind="hybrid", predictor=hybrid, details=details)


def every_word(
    messages: Sequence[Sequence[str]], vocabulary: Vocabulary
) -> tuple[Vocabulary, list[np.ndarray]]:
    """A table of all words of some messages, by the rules of another, and the messages in its ids.

    The rows of `vocabulary` come first, in their order: equal words tie alike. Masks are OOV.
    """
    counts = collections.Counter(itertools.chain(*messages))
    known = set(vocabulary.words)
    further = {word: count for word, count in counts.items() if word not in known}
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
    """Trains an n-gram to compare with; `word` is its name as the person wrote it.

    Raises `UsageError` if it cannot be as small as asked for.
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
    """Trains the n-gram that stands beside a network, of a spec in bytes.

    The result is what a reader of its file has, and the content of the file. Raises `ValueError` if
    the vocabulary alone is larger than the size wanted.
    """
    predictor, data = ngram_spec.train(
        spec, text.messages, vocabulary, owners=text.owners, least_people=LEAST_PEOPLE
    )
    assert data is not None, spec
    return predictor, data


def people_needed(store: ClientStore, wanted: int = 0) -> int:
    """People who typed a listed word, at least: `wanted`, or as its table had; two in any case.

    Raises `DataError` if the table was chosen with differential privacy, which exact counts break.
    """
    store.require_exact_counts()
    return max(LEAST_PEOPLE, wanted or store.card["vocabulary"].get("min_word_users", 0))


def count_tail(
    store: ClientStore,
    size: int,
    word_list: pathlib.Path | None = None,
    *,
    least_people: int = 0,
) -> TailLexicon:
    """The lexicon of what a store's train people typed beyond its table, and of a public list.

    A word that is not on the list, a file of `word_list.py`, needs `people_needed` of
    `least_people`. There are `size` words at most. Raises `DataError` if there is no such list, and
    as `people_needed`; `UsageError` if no word is left.
    """
    known = read_word_list(word_list, store.vocabulary.rules) if word_list else {}
    least = people_needed(store, least_people)
    typed = (store.words("train", person) for person in store.client_ids("train"))
    try:
        return counted(typed, store.vocabulary, size=size, least_people=least, frequencies=known)
    except ValueError as error:
        raise UsageError(
            f"{store.directory}: {error}. Give a public list with --word-list, or leave the "
            "lexicon out."
        ) from None


def join_hybrid(
    model: NamedPredictor,
    spec: ngram_spec.NGramSpec,
    text: TrainText,
    store: ClientStore,
    tail: TailLexicon | None = None,
) -> NamedPredictor:
    """A network with an n-gram and a cache, weights fitted on the store's validation people.

    The `source` of `model` is the word for the hybrid; `tail` is a lexicon behind the strip. Raises
    `UsageError` if `model` is no network, or its vocabulary is not that of the store; `DataError`
    if the store has no validation people.
    """
    word = model.source
    if not isinstance(model.predictor, Network) or model.kind == "ngram":
        raise UsageError(f"'{word}': a hybrid takes a run directory or a .tflite file.")
    try:
        ngram, data = train_for_hybrid(spec, text, store.vocabulary)
        hybrid = HybridPredictor(model.predictor, ngram, mixture.EQUAL, tail=tail)
    except ValueError as error:
        raise UsageError(f"'{word}': {error}") from None
    fitted_on = fit_on_validation(hybrid, store, model.name)
    details = {**model.details, "ngrams": ngram.model.num_ngrams, "ngram_bytes": len(data)}
    if tail is not None:
        details["tail_words"] = len(tail)
    details |= {"weights": hybrid.weights.to_json(), "weights_fitted_on": fitted_on}
    return dataclasses.replace(model, kind="hybrid", predictor=hybrid, details=details)


def fit_on_validation(hybrid: HybridPredictor, store: ClientStore, name: str) -> str:
    """Sets the weights of the mixture to those under which the validation people are likeliest.

    It says in words who it was fitted on. Raises `DataError` if the store has no validation people.
    """
    everybody = typed_text.of_population(store, "validation")
    text = typed_text.first_people(
        typed_text.first_words(everybody, _FIT_WORDS_OF_ONE), max_words=_FIT_WORDS
    )
    with Progress(f"fit {name}", total=text.num_words, unit="words") as line:
        hybrid.weights = hybrid_stream.fit_weights(
            hybrid, text, progress=lambda done, total: line.update(text.num_words * done / total)
        )
    return f"{len(text.people)} people of 'validation'"


def ngram_details(predictor: NGramPredictor) -> dict[str, object]:
    """What a table says about an n-gram: its order, and how many n-grams of each length."""
    return {"order": predictor.model.order, "ngrams": predictor.model.num_ngrams}
