"""The task `verify` from the command line."""

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from tasks import cli
from tasks import verify as verify_task
from tests import export_fakes
from tflite_export.export import ExportOptions, export

KEY, OTHER = (ed25519.Ed25519PrivateKey.generate() for _ in range(2))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("verify")
    run = export_fakes.save_run(folder / "run")
    export(run, folder / "k.tflite", ExportOptions(), sign_key=KEY)
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
        (["{}/k.tflite"], cli.OK, "signature: there is one, not checked"),
        (["{}/k.tflite", "--public-key={}/ours.pem"], cli.OK, "signature: right, by the key"),
        (["{}/k.tflite", "--public-key={}/theirs.pem"], cli.CHECK_FAILED, "with another key"),
        (["{}/k.tflite", "--public-key={}/none.pem"], cli.BAD_INPUT, "cannot be read"),
        (["{}/none.tflite"], cli.BAD_INPUT, "none.tflite: cannot be read"),
        ([], cli.USAGE, "Give a .tflite file"),
    ],
)
def test_says_what_it_found(folder, capsys, arguments, code, says):
    assert cli.launch(verify_task, [word.format(folder) for word in arguments]) == code
    shown = capsys.readouterr()
    assert says in (shown.out if code == cli.OK else shown.err)
    assert shown.err.count("\n") == (code != cli.OK)
