"""Clients from a corpus without users, such as WikiText-2: equal shares of its lines.

Lines are dealt out like cards: every N consecutive lines go to the N clients, in a new random order
each time. The clients differ by at most one line and have the same distribution (IID), as in papers
with "N users" of a plain corpus.
"""

import pathlib
from collections.abc import Iterator, Sequence

import numpy as np

from tff_keyboard.data.sources import lines, messages
from tff_keyboard.data.sources.messages import Message, ParserState
from tff_keyboard.storage import errors

# File names of the three parts in common distributions.
FILE_NAMES = ("train.txt", "valid.txt", "test.txt")
_USUAL_NAMES = (
    FILE_NAMES,
    ("ptb.train.txt", "ptb.valid.txt", "ptb.test.txt"),  # Penn Treebank (Mikolov's)
    ("wiki.train.tokens", "wiki.valid.tokens", "wiki.test.tokens"),  # WikiText
)
_POPULATIONS = (messages.TRAIN, messages.VALIDATION, messages.HELD_OUT)


def corpus_files(paths: Sequence[pathlib.Path]) -> list[pathlib.Path]:
    """Returns the train, valid and test file of a folder, or the three paths themselves.

    Raises `DataError` unless it gets one folder or three paths, or if the folder lacks a file.
    """
    if len(paths) == 1 and paths[0].is_dir():
        names = max(_USUAL_NAMES, key=lambda each: sum((paths[0] / n).exists() for n in each))
        files = [paths[0] / name for name in names]
        missing = [file.name for file in files if not file.exists()]
        if missing:
            raise errors.DataError(
                f"{paths[0]}: the folder has no {' or '.join(missing)}. To read the "
                "messages of users, pass the files, not the folder. To read plain text, rename the "
                "files (the names of Penn Treebank, ptb.train.txt, and WikiText, "
                "wiki.train.tokens, work too), or list all three in `data.input`."
            )
        return files
    if len(paths) != len(FILE_NAMES):
        raise errors.DataError(
            "`data.source` = 'text' requires a folder with train.txt, valid.txt and test.txt, "
            f"or these three files in `data.input`; got {len(paths)} path(s)."
        )
    return list(paths)


def read_shards(
    files: Sequence[pathlib.Path], reading: ParserState, *, num_shards: int, seed: int
) -> Iterator[Message]:
    """Yields every line that is not blank, dealt out to clients.

    The train file has `num_shards` clients. The other files have as many clients as are needed for
    about the same number of lines each, at least one. Raises the errors of `lines.read_lines`, and
    `DataError` if the train file has fewer lines than shards.
    """
    bytes_before = 0
    lines_per_client = 0.0
    for index, (file, population) in enumerate(zip(files, _POPULATIONS, strict=True)):
        if population == messages.TRAIN:
            clients = num_shards
        else:
            usable = sum(1 for _ in lines.read_lines(file, ParserState("skip")))
            clients = max(1, round(usable / lines_per_client))
        count = 0
        order = np.arange(clients)
        for _, line in lines.read_lines(file, reading, bytes_before=bytes_before):
            block, position = divmod(count, clients)
            if position == 0:
                order = np.random.default_rng([seed, index, block]).permutation(clients)
            yield Message(f"{population}-{order[position]:05d}", line, population)
            count += 1
        if count < clients:
            raise errors.DataError(
                f"{file}: {count} lines cannot fill {clients} clients. "
                "Lower `data.num_shards`, or provide more text."
            )
        if population == messages.TRAIN:
            lines_per_client = count / clients
        bytes_before += file.stat().st_size
