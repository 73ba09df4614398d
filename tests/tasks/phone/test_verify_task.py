"""The task `verify` from the command line."""

import json
import signal

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from tasks.phone import verify as verify_task
from tests.support.keyboard import export_fakes, lexicons
from tests.support.keyboard.export_fakes import export
from tff_keyboard.command_line import cli
from tflite_export.export.export_options import ExportOptions
from tflite_export.format import manifest
from tflite_export.gate import model_trial

KEY, OTHER = (ed25519.Ed25519PrivateKey.generate() for _ in range(2))


def forge(folder):
    """Returns an export that no interpreter may open, with right hashes and another's signature."""
    data = b"\xff\xff\xff\x7f" + (folder / "k.tflite").read_bytes()[4:]
    content = json.loads((folder / "k.json").read_text())
    content["model"]["sha256"] = manifest.sha256(data)
    (folder / "forged.tflite").write_bytes(data)
    (folder / "forged.json").write_text(json.dumps(content))
    for ending in (".vocabulary", ".card.md", ".sig"):
        (folder / "forged").with_suffix(ending).write_bytes(
            (folder / "k").with_suffix(ending).read_bytes()
        )


def forge_lexicon(folder, name, word):
    """Returns the export with a lexicon of one word, and its hash."""
    data = lexicons.forged(word)
    content = json.loads((folder / "k.json").read_text())
    facts = {"words": 1, "counted_on": "", "word_list": "list", "bytes": len(data)}
    content["tail"] = facts | {"sha256": manifest.sha256(data)}
    for ending in (".tflite", ".vocabulary", ".card.md"):
        (folder / name).with_suffix(ending).write_bytes(
            (folder / "k").with_suffix(ending).read_bytes()
        )
    (folder / f"{name}.tail").write_bytes(data)
    (folder / f"{name}.json").write_text(json.dumps(content))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("verify")
    run = export_fakes.save_run(folder / "run")
    export(run, folder / "k.tflite", ExportOptions(), sign_key=KEY)
    forge(folder)
    forge_lexicon(folder, "table", b"see")
    forge_lexicon(folder, "hidden", "quay\u202eyauq".encode())
    for name, key in (("ours", KEY), ("theirs", OTHER)):
        (folder / f"{name}.pem").write_bytes(
            key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
    return folder


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["{}/k.tflite"], cli.OK, "signature: present, not checked"),
        (["{}/k.tflite", "--public-key={}/ours.pem"], cli.OK, "signature: valid, from key"),
        (["{}/k.tflite", "--public-key={}/theirs.pem"], cli.CHECK_FAILED, "with a different key"),
        (["{}/k.tflite", "--public-key={}/none.pem"], cli.BAD_INPUT, "cannot be read"),
        (["{}/none.tflite"], cli.BAD_INPUT, "none.tflite: cannot be read"),
        (["{}/forged.tflite"], cli.CHECK_FAILED, "forged.tflite: crashes the interpreter"),
        (
            ["{}/forged.tflite", "--public-key={}/ours.pem"],
            cli.CHECK_FAILED,
            "does not match the manifest",
        ),
        (["{}/table.tflite"], cli.BAD_INPUT, "table.tail: not a complete lexicon (a word is also"),
        (
            ["{}/hidden.tflite"],
            cli.BAD_INPUT,
            "hidden.tail: not a complete lexicon (a word is empty",
        ),
        ([], cli.USAGE, "Pass a .tflite file"),
    ],
)
def test_prints_its_findings(folder, capsys, monkeypatch, arguments, code, says):
    use = model_trial._use

    def crash(path):  # how the interpreter reacts to it depends on the memory after the model
        signal.raise_signal(signal.SIGSEGV) if path.name == "forged.tflite" else use(path)

    monkeypatch.setattr(model_trial, "_use", crash)
    assert cli.launch(verify_task, [word.format(folder) for word in arguments]) == code
    shown = capsys.readouterr()
    assert says in (shown.out if code == cli.OK else shown.err)
    assert shown.err.count("\n") == (code != cli.OK)


@pytest.mark.parametrize("name, flags", [("forged", ["--public-key={}/ours.pem"]), ("cut", [])])
def test_files_with_a_wrong_signature_or_hash_are_not_opened(
    folder, monkeypatch, capsys, name, flags
):
    """The model is not opened in a child, either."""
    monkeypatch.setattr(model_trial, "use_in_child", lambda *_: pytest.fail("was opened"))
    for ending in (".vocabulary", ".card.md", ".json"):
        (folder / "cut").with_suffix(ending).write_bytes(
            (folder / "k").with_suffix(ending).read_bytes()
        )
    (folder / "cut.tflite").write_bytes((folder / "k.tflite").read_bytes()[:-1])
    words = [f"{folder}/{name}.tflite", *(flag.format(folder) for flag in flags)]
    assert cli.launch(verify_task, words) in (cli.BAD_INPUT, cli.CHECK_FAILED)
    assert capsys.readouterr().err.count("\n") == 1
