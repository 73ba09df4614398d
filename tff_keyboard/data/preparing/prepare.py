"""Prepares a client store from text: tokens, populations, vocabulary, SQLite, data card.

Messages are streamed to a temporary file on disk, which groups them by user. Two passes over the
users then build the vocabulary (train users only) and write the store, completely or not at all.
The memory contains a block of messages, one user, and the counts of distinct words (`word_counts`).
A second call with the same inputs and options changes nothing. docs/data.md describes the format
and the treatment of bad input.
"""

import collections
import dataclasses
import errno
import json
import pathlib
import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

from tff_keyboard.config.sections.data_config import COLUMN_KEYS, SOURCES, DataConfig
from tff_keyboard.data.preparing import grouping, population_statistics, private_words, user_plan
from tff_keyboard.data.sources import formats, messages
from tff_keyboard.data.sources import open_source as sources
from tff_keyboard.data.store import (
    example_bytes,
    forms_file,
    store_writer,
    truecase_table,
    word_choice,
)
from tff_keyboard.data.store.store_card import CARD_FORMAT, Card, Identity, read_card
from tff_keyboard.data.text import unspaced_scripts, word_counts
from tff_keyboard.data.text.capitals import Capitals, capitals_line
from tff_keyboard.data.text.python_tokenizer import PythonTokenizer
from tff_keyboard.data.vocabulary import NormalisationRules, Vocabulary
from tff_keyboard.host.progress import Progress
from tff_keyboard.storage import directories, errors, names, shipped_files
from tff_keyboard.storage.model_description import read_description

_SCRATCH_FILE = "scratch.sqlite"
_DATA_FILES = (names.CLIENTS, names.MESSAGE_LENGTHS, names.VOCABULARY, names.TRUECASE)


class Prepared(NamedTuple):
    """The data card of the store, and whether the store existed already."""

    card: Card
    was_up_to_date: bool


def prepare(config: DataConfig, out: pathlib.Path, *, overwrite: bool = False) -> Prepared:
    """Creates the client store `out` from the inputs in `config`. Does not use `config.store`.

    Args:
      config: Inputs and options.
      out: Directory of the store.
      overwrite: Whether to replace a store with other inputs or options.

    Raises:
      DataError: If the input is invalid, a population has no users, or another store is at `out`.
      ProgramError: If `out` cannot be written. It is then unchanged.
    """
    if config.long_messages == "split" and config.mode == "words":
        raise errors.DataError(
            "`data.long_messages` = 'split' needs the ends of sentences, but `data.mode` = 'words' "
            "removes them. Set `data.long_messages` = 'continue': long messages then continue in "
            "further training sequences."
        )
    source = sources.open_source(config)
    fixed_vocabulary = _fixed_vocabulary(config)
    identity: Identity = {
        "inputs": [
            {
                "name": _input_name(config, f, index),
                "sha256": sources.file_sha256(f),
                "bytes": f.stat().st_size,
            }
            for index, f in enumerate(source.files, 1)
        ],
        "options": _options(config, fixed_vocabulary),
    }
    card = _equal_store(out, identity, overwrite=overwrite)
    if card is not None:
        return Prepared(card, True)
    try:
        with directories.new_directory(
            out, replaces=(*_DATA_FILES, names.DATA_CARD), mode=directories.PRIVATE
        ) as work:
            card = _write_store(config, source, fixed_vocabulary, work, identity)
            for file, recorded in zip(source.files, identity["inputs"], strict=True):
                if sources.file_sha256(file) != recorded["sha256"]:
                    raise errors.DataError(
                        f"{file} changed while it was read. Run `prepare` again."
                    )
            text = json.dumps(card, indent=2, sort_keys=True, ensure_ascii=True) + "\n"
            # Last, because a directory without it is not a store.
            (work / names.DATA_CARD).write_text(text, "utf-8")
    except (OSError, sqlite3.OperationalError) as error:
        why = getattr(error, "strerror", None) or error
        if isinstance(error, OSError):
            is_full = error.errno == errno.ENOSPC
        else:
            is_full = "full" in str(error)
        raise errors.ProgramError(
            f"{out}: cannot write the store: {why}. "
            f"{'Free some space or choose' if is_full else 'Choose'} another folder."
        ) from None
    return Prepared(card, False)


def _input_name(config: DataConfig, file: pathlib.Path, index: int) -> str:
    """Returns the name of an input in the card: a number for chats, whose names are private."""
    return f"{index}{file.suffix}" if config.source in (*formats.EXPORTS, "auto") else file.name


def _equal_store(out: pathlib.Path, identity: Identity, *, overwrite: bool) -> Card | None:
    """Returns the card of an equal store at `out`, or None if a store may be written there.

    Raises `DataError` if there is something else.
    """
    try:
        entries = {entry.name for entry in out.iterdir()} if out.exists() else set()
    except NotADirectoryError:
        raise errors.DataError(f"{out} is a file. Pass a folder for the store.") from None
    except OSError as error:
        raise errors.DataError(f"{out}: cannot be read: {error.strerror or error}.") from None
    if not entries:
        return None
    if entries - {*_DATA_FILES, names.DATA_CARD}:
        raise errors.DataError(
            f"{out}: the folder has other files in it. Pass a new folder for the store."
        )
    try:
        card: Card | None = read_card(out)
    except errors.DataError:
        card = None
    if card is not None and all(card.get(key) == value for key, value in identity.items()):
        return card
    if overwrite:
        return None
    if card is None:
        raise errors.DataError(
            f"{out}: has a damaged or incomplete store. Pass --overwrite to replace it."
        )
    differing = [
        key for key, value in identity["options"].items() if card["options"].get(key) != value
    ]
    what = f"other options ({', '.join(differing)})" if differing else "other input files"
    raise errors.DataError(
        f"{out}: has a store that was built from {what}. Pass --overwrite to replace it, or choose "
        "another folder."
    )


def _fixed_vocabulary(config: DataConfig) -> Vocabulary | None:
    """Returns the vocabulary of `data.vocabulary_path`; None if the text determines the words.

    Raises `DataError` if its words were made by other rules than the config has.
    """
    if not config.vocabulary_path:
        return None
    path = shipped_files.locate(sources.expand_path(config.vocabulary_path, "data.vocabulary_path"))
    if path.is_dir():
        path = read_description(path)[0] / names.VOCABULARY
    vocabulary = Vocabulary.load(path)
    for field in ("mode", "lowercase", "language"):
        expected, actual = getattr(config, field), getattr(vocabulary.rules, field)
        if expected != actual:
            raise errors.DataError(
                f"`data.{field}` = {expected!r}, but the vocabulary of `data.vocabulary_path` was "
                f"built with {actual!r}. Set `data.{field}` = {actual!r}."
            )
    return vocabulary


def _options(config: DataConfig, fixed_vocabulary: Vocabulary | None) -> dict[str, object]:
    """Returns the options that determine the content of the store, in addition to the inputs."""
    options = dataclasses.asdict(config)
    for name in ("input", "store", "vocabulary_path", *_unused_options(config)):
        del options[name]
    if config.source not in SOURCES:
        options["source_sha256"] = config.own_source().source().sha256
    options["vocabulary_fingerprint"] = fixed_vocabulary.fingerprint if fixed_vocabulary else None
    options["card_format"] = CARD_FORMAT
    return options


def _unused_options(config: DataConfig) -> Iterator[str]:
    """Yields the options without an effect for this source. Changing them changes no store."""
    if config.source == "text":
        yield from ("validation_fraction", "held_out_fraction", "dedup_min_words")
        yield "max_users"
    else:
        yield "num_shards"
    if config.source != "synthetic":
        yield from ("synthetic_typists", "synthetic_messages")
    yield from (name for name in COLUMN_KEYS if not getattr(config, name))
    if config.vocabulary_path:
        yield from ("vocabulary_size", "min_word_count")
        if not config.min_word_users:  # otherwise it applies to capitalised forms
            yield "min_word_users"
    if not config.source_options:
        yield "source_options"  # stores of earlier versions have no such options
    if config.language == "en":
        yield "language"  # stores of earlier versions have no language
    if not config.vocabulary_epsilon:
        yield from ("vocabulary_epsilon", "vocabulary_delta", "vocabulary_words_per_client")


def _write_store(
    config: DataConfig,
    source: sources.Source,
    fixed_vocabulary: Vocabulary | None,
    work: pathlib.Path,
    identity: Identity,
) -> Card:
    """Fills `work` with all files except the card, and returns the card."""
    rules = NormalisationRules(
        mode=config.mode, lowercase=config.lowercase, language=config.language
    )
    scratch = work / _SCRATCH_FILE
    groups = grouping.Grouping(scratch)
    try:
        reading = _read_and_tokenise(config, source, PythonTokenizer(rules), groups)
        plan = user_plan.UserPlan(config, groups)
        counts = word_counts.WordCounts()
        private = private_words.PrivateWords(config) if config.vocabulary_epsilon else None
        reader = truecase_table.FormReader(rules)
        forms = truecase_table.FormCounts(reader)
        sizes: collections.Counter[str] = collections.Counter()
        with Progress("vocabulary", total=groups.num_users(), unit="users") as progress:
            for index, client in enumerate(plan.clients()):
                progress.update(index)
                sizes[client.population] += 1
                if client.population == messages.TRAIN:
                    words = " ".join(client.messages).split(" ")
                    counts.add_client(words)
                    if private:
                        private.add_client(words)
                    forms.add_client([Capitals.of_line(line) for line in client.capitals if line])
        plan.check_populations(sizes)
        choice = None
        vocabulary = fixed_vocabulary
        if private:
            vocabulary = private.vocabulary(rules)
        if vocabulary is None:
            choice = _choose_words(config, counts, rules)
            vocabulary = choice.vocabulary
        (work / names.VOCABULARY).write_bytes(vocabulary.to_bytes())
        case = None
        if truecase_table.has_capitals(rules) and not private:  # the table would not be private
            min_users = _min_word_users(config, counts.num_clients)
            table = truecase_table.choose_forms(forms, counts, vocabulary, min_users=min_users)
            (work / names.TRUECASE).write_bytes(forms_file.to_bytes(table.values()))
            case = truecase_table.CaseAccuracy(table, vocabulary, reader)
        statistics, digests = _write_clients(config, work, plan, sizes, vocabulary, choice, case)
    finally:
        groups.close()
    scratch.unlink()
    about_words: dict[str, object] = {
        "rows": len(vocabulary),
        "fingerprint": vocabulary.fingerprint,
        "from": "file" if fixed_vocabulary else "train users",
        "distinct_train_words": len(counts.counts) + counts.forgotten,
        "words_forgotten_in_counting": counts.forgotten,
        "rules": vocabulary.rules.as_json(),
    }
    if choice:
        about_words |= choice.facts
    if private:
        about_words["privacy"] = private.facts
    card: Card = {
        "format": CARD_FORMAT,
        "inputs": identity["inputs"],
        "options": identity["options"],
        "populations": {name: part.as_json() for name, part in statistics.items()},
        "vocabulary": about_words,
        "skipped_lines": dict(sorted(reading.skipped.items())),
        "dropped": dict(sorted(plan.dropped.items())),
        "store_sha256": digests["store_sha256"],
        "lengths_sha256": digests["lengths_sha256"],
        "file_bytes": {
            name: (work / name).stat().st_size for name in _DATA_FILES if (work / name).exists()
        },
    }
    if reading.columns:
        card["columns"] = reading.columns
    if reading.repairs:
        inputs = [one["name"] for one in identity["inputs"]]
        name_of_path = dict(zip(source.files, inputs, strict=True))
        card["repairs"] = [
            one.described(name_of_path.get(one.path, "an input")) for one in reading.repairs
        ]
    if case:
        card["truecase"] = {"forms": len(table), "held_out": case.as_json()}
    return card


def _write_clients(
    config: DataConfig,
    work: pathlib.Path,
    plan: user_plan.UserPlan,
    sizes: collections.Counter[str],
    vocabulary: Vocabulary,
    choice: word_choice.WordChoice | None,
    case: truecase_table.CaseAccuracy | None,
) -> tuple[dict[str, population_statistics.PopulationStatistics], dict[str, str]]:
    """Writes the clients' files. Returns the statistics by population and the files' digests."""
    statistics = {
        population: population_statistics.PopulationStatistics(
            config.max_length, is_cut=config.long_messages == "truncate", tells_counts=bool(choice)
        )
        for population in messages.POPULATIONS
        if sizes[population]
    }
    words = example_bytes.WordBytes(vocabulary, choice)
    writer = store_writer.StoreWriter(work)
    with Progress("write", total=sum(sizes.values()), unit="clients") as progress:
        for index, client in enumerate(plan.clients()):
            progress.update(index)
            words.reset()
            lengths, examples = zip(*map(words.message, client.messages), strict=True)
            client_id = store_writer.client_id_of(client.user)
            writer.add_client(client.population, client_id, examples, lengths)
            statistics[client.population].add_client(lengths, words)
            if case is not None and client.population == messages.HELD_OUT:
                capitals = [Capitals.of_line(line) for line in client.capitals]
                case.add_client(client.messages, capitals)
    return statistics, writer.close()


def _read_and_tokenise(
    config: DataConfig,
    source: sources.Source,
    tokenizer: PythonTokenizer,
    groups: grouping.Grouping,
) -> messages.ParserState:
    """Fills `groups`. Returns the counts and notes of the reader."""
    factor = 1e-6 if source.unit == "bytes" else 1.0
    unit = "MB" if source.unit == "bytes" else source.unit
    total = source.total * factor if source.total is not None else None
    num_messages = 0
    letters = unspaced_scripts.UnspacedLetters()
    keeps_capitals = truecase_table.has_capitals(tokenizer.rules)
    with Progress("read", total=total, unit=unit) as progress:
        reading = messages.ParserState(
            config.on_bad_line,
            lambda position: progress.update(position * factor, f"{num_messages:,} messages"),
        )
        for user, typed, population, is_later in source.messages(reading):
            row = groups.add_user(user, population)
            tokens = tokenizer.joined(typed)
            if tokens:
                letters.add(tokens)
                capitals = capitals_line(typed) if keeps_capitals else ""
                groups.add_message(row, is_later, tokens, capitals)
                num_messages += 1
            else:
                reading.skip("no_words")
    if not num_messages:
        skipped = ", ".join(f"{count} {reason}" for reason, count in reading.skipped.items())
        raise errors.DataError(
            f"{', '.join(map(str, source.files))}: no usable messages"
            f"{f' (skipped: {skipped})' if skipped else ''}. Check `data.source` and `data.mode`."
        )
    script = letters.unspaced_script()
    if script:
        raise errors.DataError(
            f"{', '.join(map(str, source.files))}: the text is {script} without spaces between "
            "words, so each clause would be one word. Split it with a segmenter first, as "
            "docs/data.md shows."
        )
    groups.freeze()
    return reading


def _choose_words(
    config: DataConfig, counts: word_counts.WordCounts, rules: NormalisationRules
) -> word_choice.WordChoice:
    """Chooses the words by their counts. Raises `DataError` if no word is frequent enough."""
    try:
        return word_choice.choose_words(
            counts,
            size=config.vocabulary_size,
            min_count=config.min_word_count,
            min_users=_min_word_users(config, counts.num_clients),
            rules=rules,
        )
    except ValueError as error:
        raise errors.DataError(
            f"No word of the train clients can enter the vocabulary: {error} Provide more text, or "
            "lower `data.min_word_users` or `data.min_word_count`."
        ) from None


def _min_word_users(config: DataConfig, num_clients: int) -> int:
    if config.min_word_users:
        return config.min_word_users
    return 1 if config.source == "text" else word_choice.usual_min_users(num_clients)
