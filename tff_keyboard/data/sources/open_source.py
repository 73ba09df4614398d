"""Opens the stream of messages that the config's `source` and `input` name."""

import dataclasses
import functools
import hashlib
import os
import pathlib
import re
from collections.abc import Callable, Iterator

from tff_keyboard.config.sections.data_config import SOURCES, DataConfig
from tff_keyboard.data.sources import formats, plain_text, synthetic, tff_sqlite, tsv
from tff_keyboard.data.sources.lines import unreadable
from tff_keyboard.data.sources.messages import Message, ParserState, clean_text
from tff_keyboard.storage import errors

_READ_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class Source:
    """Messages that can be read several times."""

    files: tuple[pathlib.Path, ...]  # input files in order; empty for synthetic text
    total: float | None  # final value of `ParserState.on_position`; None if unknown
    unit: str
    messages: Callable[[ParserState], Iterator[Message]]


def open_source(config: DataConfig) -> Source:
    """Returns the source that a config names, without reading it.

    Raises `DataError` if the input does not fit the source, or a variable in it is not set.
    """
    if config.source == "synthetic":
        return Source(
            (),
            config.synthetic_typists,
            "typists",
            lambda reading: synthetic.generate_messages(
                config.synthetic_typists,
                config.synthetic_messages,
                seed=config.seed,
                on_typist=reading.on_position,
            ),
        )
    if config.source not in SOURCES:
        files = input_paths(config) if config.input else ()
        return Source(files, None, "messages", functools.partial(_own_messages, config, files))
    files = input_paths(config)
    if config.source in tff_sqlite.FORMATS:
        if len(files) != 1:
            raise errors.DataError(
                f"`data.source` = {config.source!r} requires one .sqlite file in `data.input`, "
                f"got {len(files)}."
            )
        layout = tff_sqlite.FORMATS[config.source]
        return Source(
            files,
            None if config.max_users else tff_sqlite.num_examples(files[0]),
            "examples",
            lambda reading: tff_sqlite.read_messages(
                files[0], layout, reading, max_users=config.max_users, seed=config.seed
            ),
        )
    if config.source in formats.READ_HERE:
        files = formats.input_files(config.source, files)
        return Source(
            files,
            _total_bytes(files),
            "bytes",
            functools.partial(formats.read_messages, config, files),
        )
    read: Callable[[ParserState], Iterator[Message]] = functools.partial(tsv.read_messages, files)
    if config.source == "text":
        files = tuple(plain_text.corpus_files(files))
        read = functools.partial(
            plain_text.read_shards, files, num_shards=config.num_shards, seed=config.seed
        )
    return Source(files, _total_bytes(files), "bytes", read)


def _own_messages(
    config: DataConfig, files: tuple[pathlib.Path, ...], reading: ParserState
) -> Iterator[Message]:
    """Yields the messages of the user's own source.

    Raises:
      ConfigError: The source raises an error, or yields something else than pairs of text.
    """
    source = config.own_source()
    with source.errors():
        for number, pair in enumerate(source.call({"files": files, "seed": config.seed}), 1):
            is_pair = isinstance(pair, tuple | list) and len(pair) == 2
            if not is_pair or not all(isinstance(one, str) for one in pair) or not pair[0]:
                raise errors.ConfigError(
                    f"`data.source` = {source.type!r} must return pairs of strings, the client and "
                    f"the text of a message. Item {number} is another object."
                )
            reading.on_position(number)
            yield Message(pair[0], clean_text(pair[1]))


def input_paths(config: DataConfig) -> tuple[pathlib.Path, ...]:
    """Returns `data.input` with `~` and `$NAME` expanded.

    Raises `DataError` if it is empty, or a variable is not set.
    """
    names = (config.input,) if isinstance(config.input, str) else config.input
    if not names:
        raise errors.DataError(
            f"`data.source` = {config.source!r} requires a file. Pass it as an argument "
            "of `prepare`, or set `data.input`."
        )
    return tuple(expand_path(name, "data.input") for name in names)


def expand_path(name: str, field: str) -> pathlib.Path:
    """Returns a path with `~` and `$NAME` expanded. Raises `DataError` if a variable is not set."""
    expanded = os.path.expandvars(name)
    unset = re.search(r"\$\{?(\w+)", expanded)
    if unset:
        raise errors.DataError(
            f"`{field}` = {name!r}: the variable {unset.group(1)} is not set. "
            f"Set it (export {unset.group(1)}=...), or write the complete path."
        )
    return pathlib.Path(expanded).expanduser()


def file_sha256(path: pathlib.Path) -> str:
    """Returns the SHA-256 of a file in hex. Raises `DataError` if it cannot be read."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(_READ_BYTES):
                digest.update(block)
    except OSError as error:
        raise unreadable(path, error) from None
    return digest.hexdigest()


def _total_bytes(files: tuple[pathlib.Path, ...]) -> float | None:
    try:
        return sum(file.stat().st_size for file in files)
    except OSError:
        return None  # the reader reports the error
