"""Hostile files: a one-line error for each, in bounded memory and time.

See "Signatures, and files of others" in docs/phone/export.md.
"""

import hashlib
import io
import json
import os
import resource
import subprocess
import sys
import zipfile
import zlib

import pytest

from tests.support.keyboard import export_fakes
from tests.support.keyboard.export_fakes import export
from tff_keyboard.data.vocabulary import SPECIAL_WORDS, NormalisationRules, Vocabulary
from tff_keyboard.storage.errors import ExportError
from tflite_export.export.export_options import ExportOptions
from tflite_export.format import associated_files, manifest, vocabulary_file
from tflite_export.runtime.keyboard_predictor import KeyboardPredictor

WORDS = vocabulary_file.sorted_vocabulary(export_fakes.vocabulary()).words[4:]
RULES = {"lowercase": True, "mode": "words", "version": 1}


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sound")
    run = export_fakes.save_run(folder / "run")
    return export(run, folder / "k.tflite", ExportOptions()).paths


@pytest.fixture
def files(sound, tmp_path):
    """Returns a copy, whose manifest can be rewritten with the right hashes."""
    paths = manifest.ExportPaths(tmp_path / "k.tflite")
    for name in ("model", "vocabulary", "manifest"):
        getattr(paths, name).write_bytes(getattr(sound, name).read_bytes())
    return paths


def seal(paths, edit=lambda content: None):
    content = json.loads(paths.manifest.read_text())
    content["vocabulary"]["sha256"] = manifest.sha256(paths.vocabulary.read_bytes())
    edit(content)
    paths.manifest.write_text(json.dumps(content))


def refused(paths, message=""):
    with pytest.raises(ExportError, match=message) as caught:
        KeyboardPredictor(paths.model)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def set_at(*path, value):
    def edit(content):
        for part in path[:-1]:
            content = content[part]
        content[path[-1]] = value

    return edit


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("model", "state_sizes", "c"), True),
        (("model", "state_sizes", "c"), 0),
        (("model", "state_sizes", "c"), 10**9),
        (("model", "state_sizes"), [24, 8]),
        (("model", "quantization"), None),
        (("model", "quantization"), {"a": 1}),
        (("model", "quantization"), "int8\nsignature: valid, from key 00"),
        (("model", "quantization"), "x" * 51),
        (("model", "top_k"), 3.0),
        (("model", "top_k"), True),
        (("model", "bytes"), -5),
        (("model", "bytes"), True),
        (("model",), []),
        (("vocabulary",), "x"),
        (("special_ids",), {"pad": 0.0, "bos": 1.0, "eos": 2.0, "oov": 3.0}),
        (("special_ids",), {"pad": False, "bos": True, "eos": 2, "oov": 3}),
        (("special_ids",), []),
        (("ngram",), {"sha256": 5}),
        (("ngram",), 7),
        (("format",), 1),
        *((("truecase",), forms) for forms in ("Singapore", [1], [""], ["a" * 101], {"a": "A"})),
        (("truecase",), ["a"] * 50_001),
        (("mixture",), {}),
        (("parity",), {"people": 5}),
        (("vocabulary", "rules"), {"mode": "x" * 9999}),
        (("another",), 1),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_wrong_field_of_the_manifest(files, path, value):
    seal(files, set_at(*path, value=value))
    refused(files, "k.json")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("model", "state_sizes", "c"), 25, r"`c` of the signature `step` has the shape \[1, 24\]"),
        (("model", "state_sizes", "h"), 99_999, "`h` of the signature `step`"),
        (("model", "top_k"), 4, "`ids` of the signature `step`"),
    ],
)
def test_a_size_that_is_not_the_models(files, path, value, message):
    seal(files, set_at(*path, value=value))
    refused(files, message)


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 200_000,
        b'{"a":' * 50_000,
        b'{"format":' + b"9" * 6000 + b"}",
        b"\0" * 100,
        b"",
        '{"format": 1}'.encode("utf-16"),
        b" " * 2**23,
    ],
    ids=["deep list", "deep object", "huge number", "NUL", "empty", "UTF-16", "8 MB"],
)
def test_invalid_manifest(files, data):
    files.manifest.write_bytes(data)
    refused(files, "k.json")


def vocabulary_data(words=(), *, payload=None, header=None):
    """Returns a vocabulary file with the right checksum for any content."""
    size = len(words) + 4
    if payload is None:
        payload = bytes(len(words)) + "".join(word + "\n" for word in words).encode()
    found = {"rules": RULES, "size": size}
    if len(set(words)) == len(words):
        vocabulary = Vocabulary((*SPECIAL_WORDS, *words), NormalisationRules())
        found["fingerprint"] = vocabulary.fingerprint
    line = json.dumps(found | (header or {})).encode() if not isinstance(header, bytes) else header
    body = line + b"\n" + zlib.compress(payload, 9)
    digest = hashlib.sha256(body).hexdigest().encode()
    return b"\n".join([vocabulary_file.FORMAT, digest, body])


def swapped(words):
    found = list(words)
    found[3], found[20] = found[20], found[3]
    return found


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (vocabulary_data(swapped(WORDS)), "not sorted"),
        (vocabulary_data(sorted([*WORDS[:-1], WORDS[0]])), "not sorted"),
        (vocabulary_data(WORDS[:20]), r"`logits` of .* has the shape \[1, 44\]"),
        (vocabulary_data(sorted([*WORDS, "zzz"])), "`logits` of the signature"),
        (vocabulary_data(header={"size": 10**12}), "rows"),
        (vocabulary_data(header={"size": -10}), "rows"),
        (vocabulary_data(header={"size": True}), "rows"),
        (vocabulary_data(header=b"[" * 100_000), "not a complete vocabulary file"),
        (vocabulary_data(["a"], header={"rules": {"mode": "words", "evil": 1}}), "not a complete"),
        (vocabulary_data(["a"], header={"rules": {"\x1b[2J" + "x" * 999: 1}}), r"'\\x1b\[2Jx{99}"),
        (vocabulary_data(["a"], payload=b"\0" * 10**8), "incomplete, too long"),
        (vocabulary_data(["a"], payload=b"\n" * 10**7), "number of words differs"),
    ],
    ids=[
        "unsorted",
        "repeated",
        "short",
        "long",
        "huge size",
        "negative",
        "bool",
        "deep header",
        "rules",
        "codes for the terminal",
        "bomb",
        "many lines",
    ],
)
def test_hostile_vocabulary(files, data, message):
    files.vocabulary.write_bytes(data)
    seal(files)
    assert len(refused(files, message)) < 400 + len(str(files.vocabulary))


def front_coded_bomb(rows):
    """Returns words that share 253 of 255 characters with the previous one: 4 bytes each."""
    first = "a" * 255
    pairs = [f"{a}{b}" for a in "bcdefgh" for b in "bcdefghijklmnopqrstuvwxyz"]
    endings = [first, *(pairs[number % len(pairs)] for number in range(rows - 1))]
    payload = bytes([0] + [253] * (rows - 1)) + "".join(e + "\n" for e in endings).encode()
    return vocabulary_data(payload=payload, header={"size": rows + 4, "fingerprint": "x"})


def packed(sound, files, compression=zipfile.ZIP_STORED):
    stream = io.BytesIO(sound.model.read_bytes())
    with zipfile.ZipFile(stream, "a", compression) as archive:
        for name, data in files:
            archive.writestr(name, data)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("extra", "compression", "message"),
    [
        ([("../../PWNED", b"x")], zipfile.ZIP_STORED, "unknown or occurs twice"),
        ([("keyboard.txt", b"x")], zipfile.ZIP_STORED, "unknown or occurs twice"),
        ([("keyboard.json", b"{}")], zipfile.ZIP_STORED, "twice"),
        ([("keyboard.md", b"\0" * 10**8)], zipfile.ZIP_DEFLATED, "compressed"),
        ([(f"n{n}", b"") for n in range(9)], zipfile.ZIP_STORED, "more files than an export packs"),
    ],
    ids=["slip", "foreign", "twice", "bomb", "many"],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_archive_that_no_export_packs(sound, tmp_path, extra, compression, message):
    own = [
        ("keyboard.vocabulary", sound.vocabulary.read_bytes()),
        ("keyboard.json", sound.manifest.read_bytes()),
    ]
    path = tmp_path / "deep" / "k.tflite"
    path.parent.mkdir()
    path.write_bytes(packed(sound, own))
    assert KeyboardPredictor(path).suggest(["are"])
    path.write_bytes(packed(sound, [*own, *extra], compression))
    refused(manifest.ExportPaths(path), message)
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["deep", "k.tflite"]


@pytest.mark.parametrize("locator", [b"", b"PK\6\7" + bytes(16)], ids=["count", "zip64"])
def test_an_archive_whose_count_is_not_what_it_holds(sound, locator):
    """`zipfile` would read gigabytes from a directory that claims one entry."""
    files = [("keyboard.json", b"{}"), *((f"n{n}", b"") for n in range(0 if locator else 99))]
    data = bytearray(packed(sound, files))
    data[-12:-10] = b"\1\0"
    data[-22:-22] = locator
    with pytest.raises(ExportError, match="more files than an export packs"):
        associated_files.extract(bytes(data))


def test_an_entry_that_says_it_is_larger_than_the_file(sound):
    data = bytearray(packed(sound, [("keyboard.json", b"{}")]))
    directory = data.rindex(b"PK\1\2")
    data[directory + 20 : directory + 28] = b"\xf0\xff\xff\x7f" * 2  # both sizes
    with pytest.raises(ExportError, match="damaged"):
        associated_files.extract(bytes(data))


def test_an_entry_whose_name_is_long_is_not_quoted_whole():
    data = bytearray(associated_files.append(bytes(50_000), {"keyboard.json": b"x" * 50_000}))
    start = data.index(b"PK\3\4")
    data[start + 26 : start + 28] = (40_000).to_bytes(2, "little")  # length of its name
    with pytest.raises(ExportError, match="damaged") as caught:
        associated_files.extract(bytes(data))
    assert len(str(caught.value)) < 200


def test_pipes_and_devices_are_not_read(files):
    files.manifest.unlink()
    os.mkfifo(files.manifest)
    assert "k.tflite" in refused(files) or "k.json" in refused(files)
    files.manifest.unlink()
    files.manifest.symlink_to("/dev/zero")
    refused(files)
    files.vocabulary.unlink()
    files.vocabulary.symlink_to("/dev/zero")
    refused(files)


SCRIPT = """
import resource, sys
from tff_keyboard.storage.errors import ExportError
from tflite_export.format import vocabulary_file
data = open(sys.argv[1], "rb").read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    vocabulary_file.decode(data)
except ExportError as error:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, error)
"""


@pytest.mark.parametrize("rows", [500_000, 3_000_000])
def test_a_front_coded_bomb_stays_small(tmp_path, rows):
    """A file of 359 KB would unpack to 5.7 GB of words in 40 s."""
    path = tmp_path / "bomb.vocabulary"
    path.write_bytes(front_coded_bomb(rows))
    assert path.stat().st_size < 100_000
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (10, 10)),
    )
    kilobytes, error = done.stdout.split(" ", 1)
    assert int(kilobytes) < 150_000
    assert "not a complete vocabulary file" in error
