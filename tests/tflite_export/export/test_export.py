"""The whole export: files that belong together, or a one-line error and no files."""

import contextlib
import errno
import json
import pathlib
import resource
import shutil
import subprocess
import sys

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519

from tests.support.keyboard import export_fakes
from tests.support.keyboard.export_fakes import export
from tff_keyboard.data.vocabulary import SPECIAL_WORDS, NormalisationRules, Vocabulary
from tff_keyboard.models import build_model
from tff_keyboard.models.saved_model import load_model, save_model
from tff_keyboard.storage import names as run_names
from tff_keyboard.storage.errors import (
    CheckFailed,
    ExportError,
    RunDirectoryError,
    UsageError,
)
from tflite_export.export import private_runs
from tflite_export.export.export_options import ExportOptions
from tflite_export.export.trained_run import (
    CONTINUES_PRIVATE_RUN,
    LEDGER_ELSEWHERE,
    NO_PRIVACY_CLAIM,
    TrainedRun,
)
from tflite_export.format import associated_files, inspection, manifest
from tflite_export.gate import verification
from tflite_export.gate.parity import ParityFailed
from tflite_export.runtime.keyboard_predictor import KeyboardPredictor

ROOT = pathlib.Path(__file__).parents[3]
TEXTS = export_fakes.texts()
FILES = ["k.card.md", "k.json", "k.tflite", "k.vocabulary"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return export_fakes.save_run(tmp_path_factory.mktemp("run") / "sms")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_writes_files_that_belong_together(run, tmp_path):
    (run / "config.toml").write_text("[train]\nrounds = 3\n")
    result = export(run, tmp_path / "k.tflite", ExportOptions(allow_loss=True), held_out=TEXTS)
    assert names(tmp_path) == FILES
    content = json.loads((tmp_path / "k.json").read_text())
    data = (tmp_path / "k.tflite").read_bytes()
    assert content["special_ids"] == {"pad": 0, "bos": 1, "eos": 2, "oov": 3}
    assert content["model"]["sha256"] == manifest.sha256(data)
    assert content["model"]["bytes"] == len(data) == result.model_bytes
    assert content["vocabulary"]["rules"] == {"mode": "words", "lowercase": True, "version": 1}
    assert content["vocabulary"]["run_fingerprint"] == export_fakes.vocabulary().fingerprint
    assert content["run"]["name"] == "sms"
    assert set(content["run"]["sha256"]) == {"config.toml", "model/weights.npz"}
    assert content["privacy"] == NO_PRIVACY_CLAIM
    assert content["parity"]["words"] == result.parity.words
    assert KeyboardPredictor(tmp_path / "k.tflite").suggest(["are"])


def test_a_later_evaluation_goes_into_the_manifest(run, tmp_path):
    (run / "evaluation_held_out.json").write_text('{"metrics": {"recall_at_1_all": {"value": 1}}}')
    try:
        export(run, tmp_path / "k.tflite", ExportOptions())
        content = json.loads((tmp_path / "k.json").read_text())
        assert content["run"]["metrics"] == {"recall_at_1_all": {"value": 1}}
        (run / "evaluation_held_out.json").write_text("{")
        with pytest.raises(ExportError, match=r"evaluation_held_out\.json"):
            export(run, tmp_path / "k.tflite", ExportOptions())
    finally:
        (run / "evaluation_held_out.json").unlink()


def test_the_privacy_statement_goes_into_the_manifest(run, tmp_path):
    from tests.support.fakes import ledger_header
    from tff_keyboard.privacy.ledger.ledger import PrivacyLedger

    path = run / "privacy_ledger.jsonl"
    try:
        PrivacyLedger(path, ledger_header()).record(1, clip_norm=0.5, clients=10)
        export(run, tmp_path / "k.tflite", ExportOptions())
        assert "epsilon" in json.loads((tmp_path / "k.json").read_text())["privacy"]
        path.write_text("not a ledger\n")
        with pytest.raises(RunDirectoryError, match="privacy_ledger"):
            export(run, tmp_path / "l.tflite", ExportOptions())
        assert "l.tflite" not in names(tmp_path)
    finally:
        path.unlink()


def test_a_copy_of_a_private_model_is_private(run, tmp_path):
    """A copy has no ledger next to it, but says that noise hides the clients."""
    copy = shutil.copytree(run / "model", tmp_path / "copy")
    description = json.loads((copy / "model.json").read_text())
    assert not private_runs.is_private(copy)
    (copy / "model.json").write_text(json.dumps({**description, "private": True}))
    assert private_runs.is_private(copy)
    export(copy, tmp_path / "k.tflite", ExportOptions())
    assert json.loads((tmp_path / "k.json").read_text())["privacy"].startswith("not stated")


def test_packed_files_travel_in_the_model(run, tmp_path):
    result = export(run, tmp_path / "k.tflite", ExportOptions(pack=True))
    assert names(tmp_path) == ["k.tflite"]
    data = (tmp_path / "k.tflite").read_bytes()
    assert result.model_bytes == len(data) > result.report.num_bytes
    assert set(associated_files.extract(data)) == {
        "keyboard.vocabulary",
        "keyboard.json",
        "keyboard.md",
    }
    assert inspection.inspect(data).signatures
    packed = KeyboardPredictor(tmp_path / "k.tflite")
    export(run, tmp_path / "beside.tflite", ExportOptions())
    beside = KeyboardPredictor(tmp_path / "beside.tflite")
    assert packed.suggest(["are", "you"], "c") == beside.suggest(["are", "you"], "c")


def test_packing_replaces_the_files_of_an_earlier_export(run, tmp_path):
    export(run, tmp_path / "k.tflite", ExportOptions(quantization="int8"))
    export(run, tmp_path / "k.tflite", ExportOptions(pack=True))
    assert names(tmp_path) == ["k.tflite"]
    content = KeyboardPredictor(tmp_path / "k.tflite").manifest
    assert content.model.quantization == "int8-rows"


@pytest.mark.parametrize("place", [-5, -200, 3000])
def test_a_damaged_packed_file_is_rejected(run, tmp_path, place):
    export(run, tmp_path / "k.tflite", ExportOptions(pack=True))
    data = bytearray((tmp_path / "k.tflite").read_bytes())
    data[place] ^= 0x55
    (tmp_path / "k.tflite").write_bytes(data)
    with pytest.raises(ExportError):
        KeyboardPredictor(tmp_path / "k.tflite")


def test_files_of_two_exports_do_not_mix(run, tmp_path):
    export(run, tmp_path / "a.tflite", ExportOptions(quantization="int8"))
    export(run, tmp_path / "b.tflite", ExportOptions())
    (tmp_path / "a.tflite").write_bytes((tmp_path / "b.tflite").read_bytes())
    with pytest.raises(ExportError, match="from another export"):
        KeyboardPredictor(tmp_path / "a.tflite")


def test_exporting_again_replaces_and_gives_the_same_bytes(run, tmp_path):
    export(run, tmp_path / "k.tflite", ExportOptions())
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    export(run, tmp_path / "k.tflite", ExportOptions())
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.slow
def test_a_failed_gate_leaves_what_was_there(run, tmp_path, monkeypatch):
    export(run, tmp_path / "k.tflite", ExportOptions(quantization="none"), held_out=TEXTS)
    before = (tmp_path / "k.tflite").read_bytes()
    monkeypatch.setattr(
        "tflite_export.graphs.quantization.INT8_MAX", 1
    )  # three steps are too few, whatever else is right
    with pytest.raises(ParityFailed):
        export(run, tmp_path / "k.tflite", ExportOptions(), held_out=TEXTS)
    assert (tmp_path / "k.tflite").read_bytes() == before
    assert names(tmp_path) == FILES

    result = export(run, tmp_path / "k.tflite", ExportOptions(allow_loss=True), held_out=TEXTS)
    assert "differ from the model" in result.parity.forgiven
    assert "--allow-loss" not in result.parity.forgiven  # the user has passed it
    content = json.loads((tmp_path / "k.json").read_text())
    assert content["parity"]["forgiven"] == result.parity.forgiven


def test_too_large_a_file_is_not_published(run, tmp_path):
    with pytest.raises(CheckFailed, match="at most 5,000 are allowed"):
        export(run, tmp_path / "k.tflite", ExportOptions(max_bytes=5000))
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("out", "error", "message"),
    [
        ("k.bin", UsageError, "--out must end in .tflite, got 'k.bin'"),
        ("folder.tflite", ExportError, "is a directory"),
    ],
)
def test_an_output_that_is_no_model_file_is_rejected(run, tmp_path, out, error, message):
    (tmp_path / "folder.tflite").mkdir()
    with pytest.raises(error, match=message):
        export(run, tmp_path / out, ExportOptions())
    assert names(tmp_path) == ["folder.tflite"]


def test_an_output_below_a_file_is_an_error_of_the_machine(run, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file") as caught:
        export(run, tmp_path / "file" / "k.tflite", ExportOptions())
    assert caught.value.errno in (errno.ENOTDIR, errno.EEXIST)


def test_a_full_disk_leaves_what_was_there(run, tmp_path, monkeypatch):
    export(run, tmp_path / "k.tflite", ExportOptions(quantization="int8"))
    before = (tmp_path / "k.tflite").read_bytes()

    def full(path, data):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    for fails_at in (".tflite", ".vocabulary", ".json", ".md"):

        def write(path, data, fails_at=fails_at, sound=pathlib.Path.write_bytes):
            (full if path.suffix == fails_at else sound)(path, data)

        with monkeypatch.context() as patch:
            patch.setattr(pathlib.Path, "write_bytes", write)
            with pytest.raises(OSError, match="No space left") as caught:
                export(run, tmp_path / "k.tflite", ExportOptions())
        assert caught.value.filename == str(tmp_path / "k.tflite")
        assert names(tmp_path) == FILES
        assert (tmp_path / "k.tflite").read_bytes() == before


@pytest.mark.slow
def test_a_write_that_really_fails_leaves_nothing(run, tmp_path):
    """The kernel rejects the write halfway, as on a full disk; the task reports it in one line."""

    def limit_file_size():
        resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))

    command = [sys.executable, "-m", "tasks", "export", str(run), "--noparity"]
    done = subprocess.run(
        [*command, f"--out={tmp_path / 'k.tflite'}"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=600,
        preexec_fn=limit_file_size,
        check=False,
    )
    assert done.returncode == 4
    assert done.stderr.splitlines()[-1] == f"error: File too large: {tmp_path / 'k.tflite'}"
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"quantization": "int2"}, "`quantize` must be one of"),
        ({"top_k": 0}, "`top_k` must be >= 1"),
        ({"top_k": 41}, "`top_k` must be at most the 40 words"),
        ({"max_bytes": -1}, "`max_bytes` must be >= 0"),
        ({"trainable": True, "quantization": "int8"}, "`trainable` requires"),
    ],
)
def test_options_out_of_range_are_rejected(run, tmp_path, changes, message):
    with pytest.raises(ExportError, match=message):
        export(run, tmp_path / "k.tflite", ExportOptions(**changes))
    assert names(tmp_path) == []


def damaged(run, folder, damage):
    broken = folder / "broken"
    (broken / "model").mkdir(parents=True)
    for path in (run / "model").iterdir():
        (broken / "model" / path.name).write_bytes(path.read_bytes())
    damage(broken / "model")
    return broken


def cut(name):
    def damage(model):
        data = (model / name).read_bytes()
        (model / name).write_bytes(data[: len(data) // 2])

    return damage


def other_vocabulary(model):
    words = (*SPECIAL_WORDS, "a", "b")
    Vocabulary(words, NormalisationRules()).save(model / "vocabulary.txt")


def remove(name):
    return lambda model: (model / name).unlink()


@pytest.mark.parametrize(
    "damage",
    [
        cut("weights.npz"),
        cut("model.json"),
        cut("vocabulary.txt"),
        other_vocabulary,
        remove("weights.npz"),
        remove("model.json"),
        remove("vocabulary.txt"),
    ],
    ids=["weights", "json", "words", "other words", "no weights", "no json", "no words"],
)
def test_a_damaged_run_is_one_clear_line(run, tmp_path, damage):
    broken = damaged(run, tmp_path, damage)
    with pytest.raises(ExportError) as caught:
        export(broken, tmp_path / "k.tflite", ExportOptions())
    assert "\n" not in str(caught.value)
    assert "broken" in str(caught.value)
    assert names(tmp_path) == ["broken"]


def test_a_foreign_directory_is_one_clear_line(tmp_path):
    (tmp_path / "photos").mkdir()
    with pytest.raises(ExportError, match="there is no saved model"):
        export(tmp_path / "photos", tmp_path / "k.tflite", ExportOptions())
    with pytest.raises(ExportError, match="there is no saved model"):
        export(tmp_path / "nowhere", tmp_path / "k.tflite", ExportOptions())


def test_a_model_of_another_kind_is_one_clear_line(tmp_path):
    vocabulary = export_fakes.vocabulary()
    other = build_model("gru", vocabulary_size=len(vocabulary), seed=1, units=4, embedding_size=4)
    save_model(tmp_path / "run", other, vocabulary)
    with pytest.raises(ExportError, match=r"`model\.type` = 'cifg', got 'gru'"):
        export(tmp_path / "run", tmp_path / "k.tflite", ExportOptions())


class Killed(BaseException):
    """Stands for SIGKILL: no code of the product catches it."""


@pytest.mark.parametrize("nth", range(1, 6))
def test_files_of_two_exports_are_rejected(run, tmp_path, monkeypatch, nth):
    """A kill while the files of an older export are replaced."""
    old = export(run, tmp_path / "k.tflite", ExportOptions(top_k=2)).paths
    moves = 0

    def replace(path, target, sound=pathlib.Path.replace):
        nonlocal moves
        if moves == nth:
            raise Killed
        moves += 1
        return sound(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(pathlib.Path, "replace", replace)
        with contextlib.suppress(Killed):
            export(run, old.model, ExportOptions(top_k=5))
    if nth < len(FILES):
        with pytest.raises(ExportError, match=r"xport again|model card"):
            verification.verify(old.model, None)
    export(run, old.model, ExportOptions(top_k=5))
    assert KeyboardPredictor(old.model).manifest.model.top_k == 5
    assert names(tmp_path) == FILES
    verification.verify(old.model, None)


def test_an_export_without_a_part_removes_that_of_an_older_one(run, tmp_path):
    key = ed25519.Ed25519PrivateKey.generate()
    export(run, tmp_path / "k.tflite", ExportOptions(), sign_key=key)
    assert names(tmp_path) == sorted([*FILES, "k.sig"])
    (tmp_path / "k.md").write_text("mine")
    export(run, tmp_path / "k.tflite", ExportOptions())
    assert names(tmp_path) == sorted([*FILES, "k.md"])


def test_a_graph_before_the_first_round_has_no_claim(tmp_path):
    """`serve-rounds` exports the graph for devices before there is a model in the run."""
    run = TrainedRun(tmp_path, *load_model(export_fakes.save_run(tmp_path / "other")))
    assert run.privacy() == NO_PRIVACY_CLAIM


@pytest.mark.parametrize(
    ("flag", "statement"),
    [("is_private", LEDGER_ELSEWHERE), ("continues_private_run", CONTINUES_PRIVATE_RUN)],
)
def test_a_copied_model_says_whether_a_private_run_led_to_it(tmp_path, flag, statement):
    model, vocabulary = load_model(export_fakes.save_run(tmp_path / "run"))
    save_model(tmp_path / "copy", model, vocabulary, **{flag: True})
    run = TrainedRun(tmp_path / "copy", *load_model(tmp_path / "copy"))
    assert run.privacy() == statement


def test_a_link_as_the_table_of_capitals_is_not_exported(tmp_path):
    """Its lines would be in the export: a stranger's run could link to a secret of the user."""
    directory = export_fakes.save_run(tmp_path / "run")
    (tmp_path / "secret").write_text("mine\n")
    (directory / run_names.TRUECASE).unlink(missing_ok=True)
    (directory / run_names.TRUECASE).symlink_to(tmp_path / "secret")
    with pytest.raises(ExportError, match="it is a link, which is not followed"):
        TrainedRun(directory, *load_model(directory)).truecase()
