"""The bytes and numbers in docs/phone/format.md are those of `models/base`."""

import json
import math
import re
import zlib

import numpy as np

from tests.test_links import ROOT
from tff_keyboard.predictors.hybrid.word_cache import WordCache
from tflite_export.runtime.hybrid_keyboard import open_keyboard

PAGE = (ROOT / "docs" / "phone" / "format.md").read_text(encoding="utf-8")
BASE = ROOT / "models" / "base"


def in_page(number):
    """Whether a whole number is on the page, with or without commas."""
    return re.search(rf"(?<![\d.,]){number:,}(?![\d,])|(?<![\d.,]){number}(?!\d)", PAGE) is not None


def unpacked(name, lines):
    """The first lines of a file of `models/base`, and its unpacked rest."""
    *head, packed = (BASE / f"keyboard.{name}").read_bytes().split(b"\n", lines)
    return head, zlib.decompress(packed), len(packed)


def words_of(shared, endings):
    words = []
    for length, ending in zip(shared, endings.decode().split("\n"), strict=False):
        words.append((words[-1][:length] if words else "") + ending)
    return words


def test_hashes_and_sizes_of_the_manifest():
    manifest = json.loads((BASE / "keyboard.json").read_text())
    for part in ("model", "vocabulary", "ngram", "tail"):
        digest = manifest[part]["sha256"]
        [shown] = re.findall(rf"`{part}\.sha256` \|.*`\"(\w+)…(\w+)\"`", PAGE)
        assert digest.startswith(shown[0])
        assert digest.endswith(shown[1])
    assert in_page(manifest["model"]["bytes"])
    assert str(manifest["mixture"]["weights"][8]) in PAGE


def test_bytes_of_the_vocabulary():
    data = (BASE / "keyboard.vocabulary").read_bytes()
    for line in re.findall(r"^    ([0-9a-f]{8}): ((?:[0-9a-f]{4} ){8})", PAGE, re.MULTILINE):
        start = int(line[0], 16)
        assert data[start : start + 16] == bytes.fromhex(line[1].replace(" ", ""))
    assert data.index(b"\x78\xda") == 258
    head, rest, size = unpacked("vocabulary", 3)
    assert in_page(size)
    assert in_page(len(rest))
    count = json.loads(head[2])["size"] - 4
    words = words_of(rest[:count], rest[count:])
    rows = re.findall(r"^\| (\d+) \| `(..)` \| `(\S+)` \| (\S+) \| (\d+) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 5
    for number, shared, ending, word, row in rows:
        assert words[int(number)] == word
        assert rest[int(number)] == int(shared, 16)
        assert word.endswith(ending)
        assert int(row) == int(number) + 4
    assert [i + 4 for i, word in enumerate(words) if word.startswith("tom")] == [*range(9045, 9052)]


def test_bytes_of_the_tail_lexicon():
    head, rest, _ = unpacked("tail", 3)
    assert in_page(len(rest))
    count = json.loads(head[2])["words"]
    assert f'{{"words": {count}}}' in PAGE
    words = words_of(rest[:count], rest[2 * count :])
    place = words.index("havana")
    assert words[place - 1] == "hav"
    assert in_page(place)
    assert rest[count + place] == 86
    assert f"{math.exp(-86 / 8):.2e}".replace("e-05", "e-5") in PAGE


def test_bytes_of_the_ngram():
    data = (BASE / "keyboard.ngram").read_bytes()
    _, line, packed = data.split(b"\n", 2)
    header = json.loads(line)
    assert in_page(sum(header["part_bytes"]))
    for name in ("rows", "contexts", "part_bytes"):
        assert f"| {header[name]} |" in PAGE
    first = zlib.decompressobj().decompress(packed)
    second = zlib.decompressobj().decompress(packed[header["part_bytes"][0] :])
    size, rows, contexts = header["size"], header["rows"][0], header["contexts"][0]
    words = first[size:].decode().split("\n")
    see = 4 + words.index("see")
    assert see == 67
    bitmap = np.unpackbits(np.frombuffer(second[: size // 8], np.uint8))
    assert bitmap[see] == 1
    context = int(bitmap[:see].sum())
    assert context == 65
    planes = np.frombuffer(second, np.uint8, 2 * contexts, size // 8).reshape(2, contexts)
    children = planes[0].astype(int) + 256 * planes[1] + 1
    start = int(children[:context].sum())
    assert (start, children[context]) == (47_622, 191)
    assert in_page(start)
    low, high = header["log_ranges"][1]
    code = second[size // 8 + 2 * contexts + 2 * rows + start]
    assert code == 176
    assert f"{math.exp(low + code * (high - low) / 255):.4f}" == "0.0209"


def test_counts_of_the_word_cache():
    cache = WordCache()
    for _ in range(2):
        cache.observe(["see", "you", "at", "zofia's"])
    [shown] = re.findall(r"^    (\{\"floor\".*\})$", PAGE, re.MULTILINE)
    assert json.loads(shown)["words"] == cache.words
    assert json.loads(shown)["uses"] == cache.uses


def test_strip():
    strip = open_keyboard(BASE / "keyboard.tflite").strip_for("see you t").suggestions
    assert ", ".join(f"`{word}` {p:.6f}" for word, p in strip) in PAGE
