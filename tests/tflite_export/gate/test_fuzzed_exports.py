"""Damaged and forged parts of an export: each is accepted, or gives a one-line error."""

import hashlib
import json
import pathlib
import types

import hypothesis
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import strategies as st

from tests.support.damage import damaged, damaged_json, is_one_line
from tests.support.examples import examples
from tests.support.keyboard import export_fakes, hybrid_export
from tests.support.keyboard.export_fakes import export
from tflite_export.export.export_options import ExportOptions
from tflite_export.format import associated_files, inspection, manifest, signing
from tflite_export.gate import model_trial
from tflite_export.runtime.hybrid_keyboard import with_parts

MODEL = pathlib.Path(__file__).parents[3] / "models" / "messages" / "keyboard.tflite"
PATHS = manifest.ExportPaths(MODEL)
CONTENT = json.loads(PATHS.manifest.read_text())
KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Returns the folder of each example."""
    return manifest.ExportPaths(tmp_path_factory.mktemp("fuzzed") / "keyboard.tflite")


def put(place, sound=PATHS, **parts):
    """Writes the valid export except `parts`, with right hashes if the manifest is valid."""
    names = ("model", "vocabulary", "manifest", "ngram")
    found = {name: parts.get(name) or getattr(sound, name).read_bytes() for name in names}
    if "manifest" not in parts:
        content = json.loads(found["manifest"])
        for name in ("model", "vocabulary", "ngram"):
            content[name] |= {"sha256": manifest.sha256(found[name])}
        content["model"]["bytes"] = len(found["model"])
        found["manifest"] = json.dumps(content).encode()
    for name in names:
        getattr(place, name).write_bytes(found[name])


def read_all(place):
    """Reads all parts that are read without the interpreter."""
    content, vocabulary = manifest.load_checked(place.model)
    index = types.SimpleNamespace(vocabulary=vocabulary)
    network = types.SimpleNamespace(
        path=place.model, manifest=content, vocabulary=vocabulary, index=index
    )
    if content.ngram is not None:
        with_parts(network)


@pytest.mark.slow
@hypothesis.given(st.one_of(damaged(PATHS.manifest.read_bytes()), damaged_json(CONTENT)))
@examples(150)
def test_manifests(place, data):
    put(place, manifest=data or b" ")
    assert is_one_line(lambda: read_all(place))


@pytest.mark.slow
@hypothesis.given(damaged(PATHS.vocabulary.read_bytes()))
@examples(100)
def test_vocabularies(place, data):
    put(place, vocabulary=data or b" ")
    assert is_one_line(lambda: read_all(place))


def forged_ngrams():
    """Generates n-grams with a right digest, but with other bytes or another header."""
    body = PATHS.ngram.read_bytes()[:-32]
    first, header, rest = body.split(b"\n", 2)
    headers = damaged_json(json.loads(header)).map(lambda line: b"\n".join([first, line, rest]))
    sealed = st.one_of(damaged(body), headers)
    return sealed.map(lambda data: data + hashlib.sha256(data).digest())


@pytest.mark.slow
@hypothesis.given(forged_ngrams())
@examples(50)
def test_ngrams(place, data):
    put(place, ngram=data)
    assert is_one_line(lambda: read_all(place))


PACKED = associated_files.append(
    b"\0\0\0\0TFL3", {name: name.encode() * 3 for name in associated_files.NAMES}
)


@pytest.mark.slow
@hypothesis.given(damaged(PACKED))
@examples(300)
def test_archives(data):
    assert is_one_line(lambda: associated_files.extract(data, "k.tflite"))


SIGNATURE = signing.sign(b"manifest", KEY)


@pytest.mark.slow
@hypothesis.given(st.one_of(damaged(SIGNATURE), damaged_json(json.loads(SIGNATURE))))
@examples(300)
def test_signatures(data):
    """An accepted signature must have the same content as the right one."""

    def check():
        signing.check_signature(b"manifest", data, KEY.public_key(), "k.sig")
        found, right = json.loads(data), json.loads(SIGNATURE)
        assert bytes.fromhex(found["signature"]) == bytes.fromhex(right["signature"])

    assert is_one_line(check)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return manifest.ExportPaths(hybrid_export.export_hybrid(tmp_path_factory.mktemp("small")))


@pytest.mark.slow
@hypothesis.given(st.data())
@examples(200)
def test_inspected_files(small, data):
    """Only our own files are inspected, which a disk may have damaged."""
    assert is_one_line(lambda: inspection.inspect(data.draw(damaged(small.model.read_bytes()))))


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"trainable": True}], ids=["plain", "trainable"])
def test_forged_models(tmp_path_factory, place, options):
    """However the child ends, this process gives one line."""
    folder = tmp_path_factory.mktemp("forged")
    run = export_fakes.save_run(folder / "run")
    sound = export(run, folder / "k.tflite", ExportOptions(**options)).paths
    content = json.loads(sound.manifest.read_text())
    place.vocabulary.write_bytes(sound.vocabulary.read_bytes())
    head, rest = sound.model.read_bytes()[:8], sound.model.read_bytes()[8:]

    @hypothesis.given(damaged(rest))
    @examples(150)
    def forged(data):
        place.model.write_bytes(head + data)
        facts = {"sha256": manifest.sha256(head + data), "bytes": len(head + data)}
        place.manifest.write_text(json.dumps(content | {"model": content["model"] | facts}))
        assert is_one_line(lambda: model_trial.use_in_child(place.model))

    forged()
