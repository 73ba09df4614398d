"""From text to a client store: tokens, populations, vocabulary, SQLite, data card.

Messages stream through a scratch file on disk, which groups them by user; then two
passes over the users build the vocabulary (train users only) and write the store.
Memory holds a block of messages, one user, and the counts of distinct words
(`word_counts`), whatever the number of users.

The store appears whole or not at all, and a second call with the same inputs and
options changes nothing. docs/data.md gives the format and every treatment of bad
input.
"""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import itertools
import json
import pathlib
import sqlite3
from collections.abc import Iterator
from typing import Any, NamedTuple

from tff_keyboard.config.data_config import DataConfig
from tff_keyboard.data.sources import messages
from tff_keyboard.data.sources import open_source as sources
from tff_keyboard.data.store import (
    grouping,
    population_statistics,
    private_words,
    split,
    store_writer,
    word_choice,
)
from tff_keyboard.data.store.store_card import CARD_FORMAT, read_card
from tff_keyboard.data.text import long_messages, word_counts
from tff_keyboard.data.text import tokenizer as text
from tff_keyboard.data.vocabulary import NormalisationRules, Vocabulary
from tff_keyboard.progress import Progress
from tff_keyboard.storage import directories, errors, names

_BLOCK = 4096  # messages tokenised in a call
_SCRATCH_FILE = "scratch.sqlite"
_STORE_FILES = {names.CLIENTS, names.VOCABULARY, names.DATA_CARD}


class Prepared(NamedTuple):
    """The data card of the store, and whether it was there already."""

    card: dict[str, Any]
    was_up_to_date: bool


def prepare(config: DataConfig, out: pathlib.Path, *, overwrite: bool = False) -> Prepared:
    """Makes the client store `out` from the inputs of `config`.

    Args:
      config: Source and options; `config.store` is not used.
      out: Directory of the store.
      overwrite: Replaces a store made from other inputs or options.

    Raises:
      DataError: Bad input, a population without users, another store at `out`, or `out`
        cannot be written. `out` is then as it was before.
    """
    if config.long_messages == "split" and config.mode == "words":
        raise errors.DataError(
            "`data.long_messages` = 'split' cuts after sentence ends, which `data.mode` = 'words' "
            "drops. Set it to 'continue': long messages then go on in further training sequences."
        )
    source = sources.open_source(config)
    given = _given_vocabulary(config)
    identity = {
        "inputs": [
            {"name": file.name, "bytes": file.stat().st_size, "sha256": digest}
            for file, digest in ((file, sources.file_sha256(file)) for file in source.files)
        ],
        "options": _options(config, given),
    }
    card = _check_target(out, identity, overwrite=overwrite)
    if card is not None:
        return Prepared(card, True)
    try:
        with directories.new_directory(out) as work:
            card = _write_store(config, source, given, work)
            _check_unchanged(source, identity)
            card |= identity
            _write_card(work, card)
    except OSError as error:
        raise errors.DataError(
            f"{out}: the store cannot be written: {error.strerror or error}. Free some space or "
            "choose another folder."
        ) from None
    except sqlite3.OperationalError as error:
        raise errors.DataError(
            f"{out}: the store cannot be written: {error}. Free some space or choose another "
            "folder."
        ) from None
    return Prepared(card, False)


def _check_unchanged(source: sources.Source, identity: dict[str, Any]) -> None:
    for file, recorded in zip(source.files, identity["inputs"], strict=True):
        if sources.file_sha256(file) != recorded["sha256"]:
            raise errors.DataError(f"{file}: was changed while it was read. Start again.")


def _given_vocabulary(config: DataConfig) -> Vocabulary | None:
    if not config.vocabulary_path:
        return None
    given = Vocabulary.load(sources.expand_path(config.vocabulary_path, "data.vocabulary_path"))
    for field in ("mode", "lowercase"):
        wanted, found = getattr(config, field), getattr(given.rules, field)
        if wanted != found:
            raise errors.DataError(
                f"`data.{field}` = {wanted!r}, but the vocabulary of `data.vocabulary_path` was "
                f"made with {found!r}. Set it to {found!r}."
            )
    return given


def _options(config: DataConfig, given: Vocabulary | None) -> dict[str, Any]:
    """What decides the content of the store, beside the inputs."""
    options = dataclasses.asdict(config)
    for name in ("input", "store", "vocabulary_path", *_unused_options(config)):
        del options[name]
    options["vocabulary_fingerprint"] = given.fingerprint if given else None
    options["card_format"] = CARD_FORMAT
    return options


def _unused_options(config: DataConfig) -> Iterator[str]:
    """Options that do nothing with this source, so that changing them changes no store."""
    if config.source == "text":
        yield from ("validation_fraction", "held_out_fraction", "max_users", "dedup_min_words")
    else:
        yield "num_shards"
    if config.source != "synthetic":
        yield from ("synthetic_typists", "synthetic_messages")
    if config.vocabulary_path:
        yield from ("vocabulary_size", "min_word_count", "min_word_users")
    if not config.vocabulary_epsilon:
        yield from (
            *("vocabulary_epsilon", "vocabulary_delta"),
            "vocabulary_words_per_person",
        )


def _check_target(
    out: pathlib.Path, identity: dict[str, Any], *, overwrite: bool
) -> dict[str, Any] | None:
    """The card of an equal store at `out`, or None when it may be written.

    Raises:
      DataError: Something else is there.
    """
    try:
        names = {entry.name for entry in out.iterdir()} if out.exists() else set()
    except NotADirectoryError:
        raise errors.DataError(f"{out}: is a file. Name a folder for the store.") from None
    except OSError as error:
        raise errors.DataError(f"{out}: cannot be read: {error.strerror or error}.") from None
    if not names:
        return None
    if names - _STORE_FILES:
        raise errors.DataError(
            f"{out}: the folder holds other files, so no store is written there. Name a new folder."
        )
    try:
        card = read_card(out)
    except errors.DataError:
        card = None
    if card is not None and all(card.get(key) == value for key, value in identity.items()):
        return card
    if overwrite:
        return None
    if card is None:
        raise errors.DataError(
            f"{out}: holds a damaged or incomplete store. Give --overwrite to replace it."
        )
    differing = [
        key for key, value in identity["options"].items() if card["options"].get(key) != value
    ]
    what = f"other options ({', '.join(differing)})" if differing else "other input files"
    raise errors.DataError(
        f"{out}: holds a store made from {what}. Give --overwrite to replace it, or another folder."
    )


def _write_store(
    config: DataConfig, source: sources.Source, given: Vocabulary | None, work: pathlib.Path
) -> dict[str, Any]:
    """Fills `work` except for the card; returns the measured part of the card."""
    rules = (
        given.rules if given else NormalisationRules(mode=config.mode, lowercase=config.lowercase)
    )
    scratch = work / _SCRATCH_FILE
    groups = grouping.Grouping(scratch)
    try:
        skipped = _read_and_tokenise(config, source, text.Tokenizer(rules), groups)
        plan = _UserPlan(config, groups)
        counts = word_counts.WordCounts()
        private = private_words.PrivateWords(config) if config.vocabulary_epsilon else None
        sizes: collections.Counter[str] = collections.Counter()
        with Progress("vocabulary", total=groups.num_users(), unit="users") as progress:
            for index, client in enumerate(plan.clients()):
                progress.update(index)
                sizes[client.population] += 1
                if client.population == messages.TRAIN:
                    words = " ".join(client.messages).split(" ")
                    counts.add_person(words)
                    if private:
                        private.add_person(words)
        _check_populations(config, sizes, plan)
        choice = None
        vocabulary = given
        if private:
            vocabulary = private.vocabulary(rules)
        if vocabulary is None:
            choice = _choose_words(config, counts, rules)
            vocabulary = choice.vocabulary
        (work / names.VOCABULARY).write_bytes(vocabulary.to_bytes())
        statistics = {
            population: population_statistics.PopulationStatistics(
                config.max_length, is_cut=config.long_messages == "keep", choice=choice
            )
            for population in messages.POPULATIONS
            if sizes[population]
        }
        writer = store_writer.StoreWriter(work)
        with Progress("write", total=sum(sizes.values()), unit="clients") as progress:
            for index, client in enumerate(plan.clients()):
                progress.update(index)
                ids = [vocabulary.encode(tokens.split(" ")) for tokens in client.messages]
                writer.add_client(
                    client.population, store_writer.client_id_of(client.user), ids, client.messages
                )
                statistics[client.population].add_client(client.messages, ids)
        store_sha256 = writer.close()
    finally:
        groups.close()
    scratch.unlink()
    return {
        "format": CARD_FORMAT,
        "populations": {name: part.as_json() for name, part in statistics.items()},
        "vocabulary": {
            "rows": len(vocabulary),
            "fingerprint": vocabulary.fingerprint,
            "from": "file" if given else "train users",
            "distinct_train_words": len(counts.counts) + counts.forgotten,
            "words_forgotten_in_counting": counts.forgotten,
            **(choice.facts if choice else {}),
            **({"privacy": private.facts} if private else {}),
            "rules": dataclasses.asdict(vocabulary.rules),
        },
        "skipped_lines": dict(sorted(skipped.items())),
        "dropped": dict(sorted(plan.dropped.items())),
        "store_sha256": store_sha256,
        "file_bytes": {
            name: (work / name).stat().st_size for name in (names.CLIENTS, names.VOCABULARY)
        },
    }


def _read_and_tokenise(
    config: DataConfig, source: sources.Source, tokenizer: text.Tokenizer, groups: grouping.Grouping
) -> collections.Counter[str]:
    """Fills `groups`; returns what was skipped, by reason."""
    factor = 1e-6 if source.unit == "bytes" else 1.0
    unit = "MB" if source.unit == "bytes" else source.unit
    total = source.total * factor if source.total is not None else None
    num_messages = 0
    with Progress("read", total=total, unit=unit) as progress:
        reading = messages.Reading(
            config.on_bad_line,
            lambda position: progress.update(position * factor, f"{num_messages:,} messages"),
        )
        stream = source.messages(reading)
        while block := list(itertools.islice(stream, _BLOCK)):
            tokenised = tokenizer.tokenize([message.text for message in block])
            rows = []
            for message, tokens in zip(block, tokenised, strict=True):
                row = groups.add_user(message.user, message.population)
                if tokens:
                    rows.append((row, message.is_later, " ".join(tokens)))
                else:
                    reading.skip("no_words")
            groups.add_messages(rows)
            num_messages += len(rows)
    if not num_messages:
        skipped = ", ".join(f"{count} {reason}" for reason, count in reading.skipped.items())
        raise errors.DataError(
            f"{', '.join(str(file) for file in source.files)}: no usable message"
            f"{f' (skipped: {skipped})' if skipped else ''}. Check `data.source` and `data.mode`."
        )
    groups.freeze()
    return reading.skipped


class _Client(NamedTuple):
    """A user in a population; messages are tokens joined by spaces."""

    user: str
    population: str
    messages: list[str]


class _UserPlan:
    """Turns grouped users into clients, the same way each time it is asked.

    Attributes:
      dropped: Messages and users left out by the last full iteration, by reason.
    """

    def __init__(self, config: DataConfig, groups: grouping.Grouping):
        self._config = config
        self._groups = groups
        self.dropped: collections.Counter[str] = collections.Counter()

    def clients(self) -> Iterator[_Client]:
        """Clients in the order of user names; a user may be in train and train_later."""
        config = self._config
        self.dropped.clear()
        chosen = None
        if config.max_users and config.source != "text":
            chosen = set(
                split.choose_users(self._groups.user_names(), config.max_users, seed=config.seed)
            )
        for user in self._groups.users():
            if chosen is not None and user.user not in chosen:
                self.dropped["users_over_max_users"] += 1
                continue
            if not user.messages:
                self.dropped["users_without_usable_text"] += 1
                continue
            kept = self._without_duplicates(user.messages)
            if len(kept) < config.min_messages_per_user:
                self.dropped["users_under_min_messages"] += 1
                self.dropped["messages_of_users_under_min_messages"] += len(kept)
                continue
            population = user.population or split.population_of(
                user.user,
                seed=config.seed,
                validation_fraction=config.validation_fraction,
                held_out_fraction=config.held_out_fraction,
            )
            if population != messages.TRAIN:
                yield self._client(user.user, population, [message.tokens for message in kept])
                continue
            sooner = [message.tokens for message in kept if not message.is_later]
            later = [message.tokens for message in kept if message.is_later]
            num_later = int(len(sooner) * config.later_fraction)
            if num_later:
                sooner, later = sooner[:-num_later], sooner[-num_later:]
            if sooner:
                yield self._client(user.user, messages.TRAIN, sooner)
            if later:
                yield self._client(user.user, messages.TRAIN_LATER, later)

    def _without_duplicates(
        self, given: list[grouping.TokenisedMessage]
    ) -> list[grouping.TokenisedMessage]:
        """Drops long messages whose tokens this user has typed before."""
        least = self._config.dedup_min_words
        if not least or self._config.source == "text":
            return given
        seen: set[bytes] = set()
        kept = []
        for message in given:
            if message.tokens.count(" ") + 1 >= least:
                key = hashlib.blake2b(message.tokens.encode(), digest_size=16).digest()
                if key in seen:
                    self.dropped["duplicate_messages"] += 1
                    continue
                seen.add(key)
            kept.append(message)
        return kept

    def _client(self, user: str, population: str, given: list[str]) -> _Client:
        if self._config.long_messages == "split":
            given = [
                " ".join(piece)
                for tokens in given
                for piece in long_messages.split_message(
                    tokens.split(" "), self._config.max_length - 1
                )
            ]
        return _Client(user, population, given)


def _check_populations(
    config: DataConfig, sizes: collections.Counter[str], plan: _UserPlan
) -> None:
    """Raises unless train, validation and held-out all have a client."""
    empty = [
        name for name in (messages.TRAIN, messages.VALIDATION, messages.HELD_OUT) if not sizes[name]
    ]
    if not empty:
        return
    users = sum(sizes.values()) - sizes[messages.TRAIN_LATER]
    message = f"Of {users} usable users none fell into {' and '.join(empty)}."
    if users < 3:
        raise errors.DataError(
            f"{message} At least 3 are needed, one for each population. Give messages of more "
            "people, or cut one person's into several users (by chat or by month)."
        )
    seed = _working_seed(config, plan)
    way_out = (
        f"Set `data.seed` = {seed}, which fills all three"
        if seed is not None
        else ("Give more users")
    )
    raise errors.DataError(
        f"{message} {way_out}, or raise `data.validation_fraction` and `data.held_out_fraction`."
    )


def _working_seed(config: DataConfig, plan: _UserPlan) -> int | None:
    """The nearest seed above under which no population is empty, if one is near."""
    users = sorted({client.user for client in itertools.islice(plan.clients(), 10_000)})
    for seed in range(config.seed + 1, config.seed + 1000):
        filled = {
            split.population_of(
                user,
                seed=seed,
                validation_fraction=config.validation_fraction,
                held_out_fraction=config.held_out_fraction,
            )
            for user in users
        }
        if len(filled) == 3:
            return seed
    return None


def _choose_words(
    config: DataConfig, counts: word_counts.WordCounts, rules: NormalisationRules
) -> word_choice.WordChoice:
    try:
        return word_choice.choose_words(
            counts,
            size=config.vocabulary_size,
            min_count=config.min_word_count,
            min_users=_min_word_users(config, counts.num_people),
            rules=rules,
        )
    except ValueError as error:
        raise errors.DataError(
            f"Train users typed no word that can be learned: {error} Give more text, or set "
            "`data.min_word_users` or `data.min_word_count` lower."
        ) from None


def _min_word_users(config: DataConfig, num_people: int) -> int:
    if config.min_word_users:
        return config.min_word_users
    # Lines of a published text are dealt to shards: they are nobody's.
    return 1 if config.source == "text" else word_choice.usual_min_users(num_people)


def _write_card(work: pathlib.Path, card: dict[str, Any]) -> None:
    """Last: a directory without it is not a store."""
    (work / names.DATA_CARD).write_text(
        json.dumps(card, indent=2, sort_keys=True, ensure_ascii=True) + "\n", encoding="utf-8"
    )
