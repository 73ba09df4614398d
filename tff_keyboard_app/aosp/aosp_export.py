"""Exports a `.combined` word list from a trained model and users' text.

open -> sum user by user -> list -> write
"""

import pathlib
import time
from collections.abc import Sequence

from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.vocabulary import OOV
from tff_keyboard.evaluation.counts import typed_text
from tff_keyboard.host.progress import Progress
from tff_keyboard.predictors.predictor import Predictor
from tff_keyboard.storage import files
from tff_keyboard.storage.errors import ExportError, UsageError
from tff_keyboard_app.aosp import aosp_part, combined_file
from tff_keyboard_app.aosp.engine import AospPredictor
from tff_keyboard_app.aosp.expected_counts import ExpectedCounts, expected_counts, likely_pairs
from tff_keyboard_app.keyboard.dictionary_files import Entry
from tflite_export.export import private_runs, tail_part
from tflite_export.export.trained_run import NO_PRIVACY_CLAIM, TrainedRun
from tflite_export.runtime.keyboard_predictor import KeyboardPredictor


def export(
    model: pathlib.Path,
    store_directory: pathlib.Path,
    out: pathlib.Path,
    *,
    tail: int = 0,
    word_list: pathlib.Path | None = None,
    min_word_users: int = 0,
    dictionary: Sequence[Entry] = (),
) -> list[str]:
    """Writes the list, and returns the lines to print.

    Args:
      model: A run directory or an exported `.tflite` file.
      store_directory: The client store over whose train clients the counts are summed.
      out: The file, `.combined`.
      tail: Number of words outside the vocabulary to list.
      word_list: Public word list for `tail`.
      min_word_users: Minimum number of clients of a word; 0 for the limit of the store.
      dictionary: Entries of a personal dictionary to list, too, of this language or of all.

    Raises:
      UsageError: If there are no words to list.
      ExportError: If the run is private.
      DataError: If the store cannot be used, or the population is empty.
      ProgramError: If the file cannot be written.
    """
    private_runs.refuse(model, "sums over", "Use the keyboard of an export instead.")
    files.make_directory(out.parent)  # fails before the work, not after it
    predictor, forms = _open(model)
    store = ClientStore(store_directory)
    private_runs.refuse_counts(
        model, store.client_ids("train"), "sums over", "Use the keyboard of an export instead."
    )
    typed_text.check_rules(store, predictor.vocabulary.rules)
    min_clients = tail_part.clients_needed(store, min_word_users)
    listed_tail = None
    if tail:
        listed_tail = tail_part.find(
            model,
            predictor.vocabulary,
            store_directory,
            tail,
            word_list,
            min_clients=min_clients,
        )
    counts = _summed(predictor, store)
    try:
        words = aosp_part.build(
            counts,
            predictor.vocabulary,
            date=int(time.time()),
            min_clients=min_clients,
            public_words=listed_tail.public_words if listed_tail else frozenset(),
            tail=listed_tail.lexicon if listed_tail else None,
            forms=forms,
        )
    except ValueError as error:
        raise UsageError(f"{store.directory}: {error}.") from None
    words_listed = "each word that is not on a public list" if word_list else "each word"
    statement = (
        "none. The sums have no noise. The only limit on what the list reveals about a client is "
        f"that several clients typed {words_listed}."
    )
    language = predictor.vocabulary.rules.language
    words = combined_file.with_entries(
        words,
        [(entry.shortcut, entry.word) for entry in dictionary if entry.is_of(language)],
    )
    remarks = [f"{counts.people:,} clients of 'train'", f"privacy: {statement}"]
    data = words.to_bytes(remarks)
    files.write_atomically(out, [data])
    listed = AospPredictor(words, predictor.vocabulary.rules).vocabulary
    typists = zip(predictor.vocabulary.words, counts.typists.tolist(), strict=True)
    alone = sum(n == 1 and listed.id_of(word) != OOV for word, n in typists)
    beyond = ""
    if listed_tail:
        beyond = f"; outside the vocabulary {listed_tail.min_clients} of {listed_tail.counted_on}"
        beyond += f", or an entry in {word_list.name}" if word_list else ""
    compiled = f"main_{language}.dict"
    return [
        f"{out}: {len(words.words):,} words, {words.num_bigrams:,} bigrams, {len(data):,} bytes",
        f"words that only one client typed: {alone} (each word needs at least {min_clients} of "
        f"{counts.people:,} clients{beyond})",
        f"privacy: {statement}",
        f"For HeliBoard, run: java -jar dicttool_aosp.jar makedict -s {out} -d {compiled}. Then "
        f"add {compiled} in HeliBoard's settings, under Dictionaries.",
    ]


def _open(model: pathlib.Path) -> tuple[Predictor, list[str]]:
    """Returns the predictor of a run or an exported file, and the words it writes with capitals.

    The words are forms such as "London"; the list is empty if the store recorded none.

    Raises:
      ExportError: An exported file, or a model before it, was trained with differential privacy.
    """
    if model.suffix != ".tflite":
        from tff_keyboard.predictors.keras_predictor import KerasPredictor

        trained = TrainedRun.load(model)
        return KerasPredictor(trained.model, trained.vocabulary), trained.truecase()
    keyboard = KeyboardPredictor(model)
    if keyboard.manifest.privacy != NO_PRIVACY_CLAIM:
        raise ExportError(
            f"{model}, or a model before it, was trained with differential privacy, but sums over "
            "the text of the same clients would reveal what its noise hides. Use the keyboard of "
            "the export instead."
        )
    return keyboard, list(keyboard.manifest.truecase)


def _summed(predictor: Predictor, store: ClientStore) -> ExpectedCounts:
    """Returns the expected counts over the text of all train clients."""
    clients = store.client_ids("train")
    following = likely_pairs(predictor)
    with Progress("sum", total=len(clients), unit="people") as line:
        return expected_counts(
            predictor,
            (store.words("train", client) for client in clients),
            following,
            summed=line.update,
        )
