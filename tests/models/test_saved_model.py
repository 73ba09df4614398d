"""Saved models: the round trip, and all kinds of invalid directories."""

import errno
import gc
import io
import json
import os
import pathlib
import resource
import sys
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import strange_files
from tests.support.damage import DEEP_JSON, ESCAPES, damaged, damaged_json, is_one_line
from tests.support.examples import examples
from tff_keyboard.data.vocabulary import NormalisationRules, Vocabulary
from tff_keyboard.models import build_model, saved_model
from tff_keyboard.models.saved_model import load_model, save_model
from tff_keyboard.storage.errors import DataError, SavedModelError

VOCABULARY = Vocabulary.from_counts(
    {"tea": 3, "cup": 2, "hot": 1}, size=7, rules=NormalisationRules()
)
OPTIONS = {
    "cifg": {"units": 4, "embedding_size": 3},
    "gru": {"units": 4, "embedding_size": 4, "tied": True, "dropout": 0.2},
    "lstm2": {"units": 4, "embedding_size": 3},
    "transformer": {"embedding_size": 4, "layers": 1, "heads": 2, "window": 5},
}


def build(name="cifg", seed=1):
    return build_model(name, vocabulary_size=7, seed=seed, **OPTIONS[name])


@pytest.fixture(name="directory")
def _directory(tmp_path):
    save_model(tmp_path / "model", build(), VOCABULARY)
    return tmp_path / "model"


@pytest.mark.parametrize("name", OPTIONS)
def test_round_trip(name, tmp_path):
    model = build(name)
    save_model(tmp_path / "run" / "model", model, VOCABULARY)
    for place in (tmp_path / "run" / "model", tmp_path / "run"):  # a run directory works too
        loaded, vocabulary = load_model(place)
        assert vocabulary == VOCABULARY
        assert type(loaded) is type(model)
        assert loaded.options == model.options
        ids = np.array([[1, 4, 5]], np.int32)
        np.testing.assert_array_equal(loaded(ids), model(ids))


@pytest.mark.parametrize("rounds, later", [(2, True), (3, False), (None, False)])
def test_warns_if_the_training_has_continued(tmp_path, rounds, later):
    save_model(tmp_path / "model", build(), VOCABULARY, rounds=rounds)
    (tmp_path / "metrics.jsonl").write_text("".join(f'{{"round": {n}}}\n' for n in (1, 2, 3)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        load_model(tmp_path)
        load_model(tmp_path / "model")  # loaded by its own path
    said = [str(warning.message) for warning in caught]
    assert len(said) == later
    if later:
        assert (
            f"{tmp_path / 'model'} is from round 2, but the training is now at round 3" in said[0]
        )


def test_replaces_a_model_and_leaves_nothing_else(directory):
    save_model(directory, build(seed=2), VOCABULARY)
    np.testing.assert_array_equal(
        load_model(directory)[0].embedding.numpy(), build(seed=2).embedding.numpy()
    )
    assert [path.name for path in directory.parent.iterdir()] == ["model"]


@pytest.mark.parametrize("kind", strange_files.KINDS)
@pytest.mark.parametrize("name", ["model.json", "weights.npz", "vocabulary.txt"])
@pytest.mark.parametrize("has_digest", [True, False])
def test_pipes_and_devices_are_not_read(directory, name, kind, has_digest):
    if not has_digest:  # of an attacker
        description = json.loads((directory / "model.json").read_text())
        (directory / "model.json").write_text(json.dumps(description | {"sha256": {}}))
    strange_files.put_strange_file(directory / name, kind)
    with strange_files.limited(), pytest.raises((SavedModelError, DataError)):
        load_model(directory)


def test_a_folder_of_the_user_is_not_replaced(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.tex").write_text("mine")
    (tmp_path / "model").symlink_to("thesis")
    for path in (tmp_path / "thesis", tmp_path / "model"):
        with pytest.raises(OSError, match=r"'chapter1.tex' in it|is a link"):
            save_model(path, build(), VOCABULARY)
    assert (tmp_path / "thesis" / "chapter1.tex").read_text() == "mine"


def test_equal_models_give_equal_bytes(directory):
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    save_model(directory, build(), VOCABULARY)
    assert before == {path.name: path.read_bytes() for path in directory.iterdir()}


def test_failed_save_keeps_the_old_model(directory, monkeypatch):
    monkeypatch.setattr(
        saved_model.Vocabulary, "to_bytes", lambda *_: (_ for _ in ()).throw(OSError("disk full"))
    )
    with pytest.raises(OSError, match="disk full"):
        save_model(directory, build(seed=2), VOCABULARY)
    monkeypatch.undo()
    np.testing.assert_array_equal(
        load_model(directory)[0].embedding.numpy(), build().embedding.numpy()
    )
    assert [path.name for path in directory.parent.iterdir()] == ["model"]


def test_full_disk_keeps_the_old_model(directory, monkeypatch):
    def full(*unused):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left") as caught:
            save_model(directory, build(seed=2), VOCABULARY)
    assert caught.value.filename == str(directory)
    np.testing.assert_array_equal(
        load_model(directory)[0].embedding.numpy(), build().embedding.numpy()
    )
    assert [path.name for path in directory.parent.iterdir()] == ["model"]


def test_failed_write_is_one_error(directory, monkeypatch):
    """The kernel rejects writes, as on a full disk; there is no second error from the archive."""
    complaints = []
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            save_model(directory, build(seed=2), VOCABULARY)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    gc.collect()
    assert not complaints
    assert [path.name for path in directory.parent.iterdir()] == ["model"]


def test_rejects_invalid_models_when_saving(tmp_path):
    with pytest.raises(ValueError, match="8 output rows, but the vocabulary has 7"):
        save_model(tmp_path / "m", build_model("cifg", vocabulary_size=8, seed=0), VOCABULARY)
    model = build()
    model.bias.assign(model.bias * np.nan)
    with pytest.raises(ValueError, match="'bias' is not finite"):
        save_model(tmp_path / "m", model, VOCABULARY)
    assert list(tmp_path.iterdir()) == []


def change_description(directory, **changes):
    path = directory / "model.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def record_digest(directory, name):
    digest = json.loads((directory / "model.json").read_text())["sha256"]
    change_description(directory, sha256={**digest, name: saved_model._sha256(directory / name)})


def save_weights(directory, weights):
    np.savez(directory / "weights.npz", **weights)
    record_digest(directory, "weights.npz")


def flip_a_bit(directory):
    content = bytearray((directory / "weights.npz").read_bytes())
    content[len(content) // 2] ^= 1
    (directory / "weights.npz").write_bytes(content)


def without_bias(directory):
    weights = dict(np.load(directory / "weights.npz"))
    del weights["bias"]
    save_weights(directory, weights)


def with_bias(value):
    def damage(directory):
        save_weights(directory, {**np.load(directory / "weights.npz"), "bias": value})

    return damage


def with_members(**members):
    """Returns a damage: some arrays are other bytes, unpacked from a small archive."""

    def damage(directory):
        path = directory / "weights.npz"
        sound = {f"{name}.npy": value for name, value in np.load(path).items()}
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, value in sound.items():
                file = io.BytesIO()
                np.save(file, value)
                archive.writestr(name, members.get(name.removesuffix(".npy"), file.getvalue()))
        record_digest(directory, "weights.npz")

    return damage


def header_of(*shape):
    file = io.BytesIO()
    layout = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, layout)
    return file.getvalue()


def deep_description(directory):
    (directory / "model.json").write_bytes(DEEP_JSON["unclosed"])


def as_large_as_a_bias(directory):
    """The sizes are sides of weights, but a model of these sizes does not fit into the memory."""
    size = 4 * 10**6
    save_weights(directory, {**np.load(directory / "weights.npz"), "bias": np.zeros(size, "f4")})
    change_description(directory, options={"units": size, "embedding_size": size})


def not_an_archive(directory):
    (directory / "weights.npz").write_bytes(b"PK of another kind")
    record_digest(directory, "weights.npz")


def a_word_less(directory):
    words = Vocabulary.from_counts({"tea": 3, "cup": 2}, size=6, rules=NormalisationRules())
    words.save(directory / "vocabulary.txt")
    record_digest(directory, "vocabulary.txt")


DAMAGES = {
    "no model": (lambda d: (d / "model.json").unlink(), "there is no saved model"),
    "no weights": (lambda d: (d / "weights.npz").unlink(), "weights.npz: cannot be read"),
    "bit flip": (flip_a_bit, "the content does not match model.json"),
    "other words": (
        lambda d: (d / "vocabulary.txt").write_text("x"),
        "vocabulary.txt: the content does not match",
    ),
    "not json": (lambda d: (d / "model.json").write_text("{"), "model.json: is damaged"),
    "a list": (lambda d: (d / "model.json").write_text("[]"), "the format must be"),
    "other format": (lambda d: change_description(d, format="2"), "the format must be"),
    "no options": (lambda d: change_description(d, options=None), "field 'options'"),
    "no digests": (lambda d: change_description(d, sha256={}), "`sha256` must name"),
    "unknown model": (lambda d: change_description(d, name="rnn"), "`model.type` must be one"),
    "unknown option": (lambda d: change_description(d, options={"u": 1}), "`model.u` is not"),
    "other size": (lambda d: change_description(d, vocabulary_size=9), "must be float32 [9, "),
    "a word less": (a_word_less, "has 6 rows, but model.json says 7"),
    "a billion units": (
        lambda d: change_description(d, options={"units": 10**9, "embedding_size": 3}),
        "`units` = 1000000000, but no side of a weight in weights.npz is longer than 12",
    ),
    "a weight less": (without_bias, "has the weights"),
    "other shape": (with_bias(np.zeros(3, np.float32)), "must be float32"),
    "other type": (with_bias(np.zeros(12)), "is float64"),
    "not finite": (with_bias(np.full(12, np.inf, np.float32)), "not finite"),
    "deep json": (deep_description, "model.json: is damaged: it is nested deeper than 100 levels"),
    "deep options": (
        lambda d: (d / "model.json").write_bytes(b'{"options":' + b"[" * 400 + b"]" * 400 + b"}"),
        "model.json: is damaged: it is nested deeper than 100 levels",
    ),
    "escape codes": (
        lambda d: change_description(d, format=ESCAPES),
        "model.json: the format must be 'tff-keyboard model 1', got '\\x1b[31mX",
    ),
    "10^12 floats": (
        with_members(bias=header_of(10**12) + bytes(48)),
        "weights.npz: cannot be read: 'bias' declares 4,000,000,000,000 bytes, but the archive has "
        "48 for it",
    ),
    "a bomb": (
        with_members(bias=header_of(25 * 2**20) + bytes(100 * 2**20)),
        "weights.npz: cannot be read: its arrays declare 104,858,020 bytes, more than",
    ),
    "a small bomb": (with_members(bias=header_of(2**20) + bytes(2**22)), "is float32 [1048576]"),
    "sizes of one side": (as_large_as_a_bias, "must be float32 [7, 4000000]"),
    "not an archive": (not_an_archive, "weights.npz: cannot be read"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_one_line(damage, directory):
    inflict, message = DAMAGES[damage]
    inflict(directory)
    with pytest.raises(SavedModelError) as caught:
        load_model(directory)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_shipped_base_model_is_whole(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # it is found from any directory
    model, vocabulary = load_model("models/base")
    assert len(vocabulary) == model.vocabulary_size == 10_000
    assert model.count_params() == 1_412_250


@given(st.data())
@examples(60)
@pytest.mark.parametrize("name", ["model.json", "weights.npz", "vocabulary.txt"])
def test_damaged_files_are_read_or_one_line(name, tmp_path_factory, data):
    directory = tmp_path_factory.mktemp("fuzzed") / "model"
    save_model(directory, build(), VOCABULARY)
    path = directory / name
    if name == "model.json" and data.draw(st.booleans()):
        path.write_bytes(data.draw(damaged_json(json.loads(path.read_text()))))
    else:
        path.write_bytes(data.draw(damaged(path.read_bytes())))
    if name != "model.json":
        record_digest(directory, name)
    assert is_one_line(lambda: load_model(directory))


@pytest.mark.parametrize("damage", ["10^12 floats", "a bomb", "a small bomb", "sizes of one side"])
def test_sizes_are_checked_before_memory_is_used(damage, directory):
    DAMAGES[damage][0](directory)
    limit = resource.getrlimit(resource.RLIMIT_AS)
    in_use = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    tracemalloc.start()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + 2**30, limit[1]))
    try:
        with pytest.raises(SavedModelError):
            load_model(directory)
        growth = tracemalloc.get_traced_memory()[1]
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limit)
        tracemalloc.stop()
    # The digests read the whole file, whose last case has 16 MB.
    assert growth < 8 * 2**20 + 2 * (directory / "weights.npz").stat().st_size


@pytest.mark.parametrize("flag", ["is_private", "continues_private_run"])
def test_a_copy_by_loading_and_saving_says_that_it_was_private(tmp_path, flag):
    save_model(tmp_path / "first", build("gru"), VOCABULARY, run_id="abc", **{flag: True})
    model, vocabulary = load_model(tmp_path / "first")
    save_model(tmp_path / "copy", model, vocabulary)
    description = json.loads((tmp_path / "copy" / "model.json").read_text())
    key = {"is_private": "private"}.get(flag, flag)
    assert description[key] is True
    assert "run_id" not in description  # nothing tells who changed the weights
