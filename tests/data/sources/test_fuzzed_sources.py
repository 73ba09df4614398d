"""Every reader of text on randomly damaged files: it reads them, or raises a one-line error.

A longer run for each reader:

    TFF_KEYBOARD_FUZZ_SECONDS=30 pytest -s tests/data/sources/test_fuzzed_sources.py -m slow
"""

import gzip
import os
import random
import time

import pytest

from tests.data.sources.test_tff_sqlite import example, post, write_client_data
from tests.support import exported_chats
from tests.support.damage import random_damage
from tff_keyboard.config.sections.data_config import DataConfig
from tff_keyboard.data.sources import formats, open_source, plain_text
from tff_keyboard.data.sources.messages import ParserState
from tff_keyboard.storage.errors import UserError

SECONDS = float(os.environ.get("TFF_KEYBOARD_FUZZ_SECONDS", "1"))
SECRET = exported_chats.SECRET.encode()
WIKI = b" = Title = \n\n happy text \n = = Part = = \n\n happy again \n\n = Other = \n\n see you \n"


def write_sqlite(path, source):
    if source == "stackoverflow":
        texts = {split: [f"happy {split} {n}" for n in range(3)] for split in ("train", "heldout")}
        rows = [(split, f"u{split}", post(text)) for split in texts for text in texts[split]]
    else:
        snippets = {"train": b"happy\nsee you", "test": b"thanks\n\nhappy"}
        rows = [(split, "HAMLET", example(snippets=snippets[split])) for split in snippets]
    write_client_data(path, rows)
    return path.read_bytes()


def write_parquet(path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"user": ["ann", "ben"] * 4, "text": ["happy", "see you"] * 4})
    parquet.write_table(table, path)
    return path.read_bytes()


def sound_files(source, directory):
    """Returns name -> content of the input, in which every text contains the secret."""
    if source in exported_chats.FILES:
        files = dict([exported_chats.FILES[source]])
    elif source == "tsv":
        files = {
            "a.tsv": b"user\ttext\nann\thappy day\r\n\nben\tsee you\ncem\tthanks \xf0\x9f\x98\x80\n"
        }
    elif source == "text":
        files = dict.fromkeys(plain_text.FILE_NAMES, WIKI)
    elif source == "parquet":
        files = {"a.parquet": write_parquet(directory / "sound")}
    else:
        files = {"a.sqlite": write_sqlite(directory / "sound", source)}
    if source in ("parquet", "stackoverflow", "shakespeare"):  # lengths are stored
        return {name: content.replace(b"happy", SECRET) for name, content in files.items()}
    for word in (b"happy", b"thanks", b"see you"):
        files = {name: content.replace(word, SECRET) for name, content in files.items()}
    return files


def error_of(source, paths, on_bad_line):
    """Returns the error of reading the files, or ""."""
    config = DataConfig(source=source, input=tuple(map(str, paths)), num_shards=2)
    try:
        for path in paths:
            formats.format_of(path)
        for _ in open_source.open_source(config).messages(ParserState(on_bad_line)):
            pass
    except UserError as error:
        return str(error)
    return ""


SOURCES = [
    *("tsv", *formats.TABLES, *formats.EXPORTS),
    *("text", "stackoverflow", "shakespeare"),
]


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
def test_damaged_files_are_read_or_rejected(tmp_path, source):
    files = sound_files(source, tmp_path)
    paths = [tmp_path / name for name in files]
    cases = refused = 0
    begun = time.monotonic()
    while time.monotonic() < begun + SECONDS:
        rng = random.Random(cases)
        is_gzip = "sqlite" not in paths[0].name and rng.random() < 0.1
        for path, sound in zip(paths, files.values(), strict=True):
            content = gzip.compress(sound) if is_gzip and rng.random() < 0.5 else sound
            content = random_damage(content, rng) if rng.random() < 0.7 else content
            path.write_bytes(gzip.compress(content) if is_gzip else content)
        try:
            said = error_of(source, paths, rng.choice(["error", "skip"]))
        except Exception as error:
            raise AssertionError(f"case {cases}: {error!r}") from error
        assert "\n" not in said, cases
        assert exported_chats.SECRET not in said, cases
        cases, refused = cases + 1, refused + bool(said)
    seconds = time.monotonic() - begun
    print(f"{source}: {cases} cases in {seconds:.0f} s, {refused} rejected in one line")
    assert 0 < refused < cases
