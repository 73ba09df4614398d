"""What a private run publishes has no hash and no count of the text of its clients."""

import hashlib
import shutil

import pytest

from tasks.evaluate import report as report_task
from tasks.phone import export as export_task
from tasks.privacy import privacy as privacy_task
from tests.support.fakes import tiny_config
from tff_keyboard.command_line import cli
from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard.training.federated import train_federated

PRIVATE = (
    "aggregation.client_weighting=uniform",
    "aggregation.privacy={type='gaussian', clip_norm=0.5, noise_multiplier=1.0}",
    "train.rounds=1",
)


@pytest.mark.slow
@pytest.mark.parametrize("options", [PRIVATE, ("train.rounds=1",)], ids=["private", "public"])
def test_hashes_and_counts_of_the_text(store, tmp_path, capsys, options):
    private_store = shutil.copytree(store, tmp_path / "store")
    run_dir = tmp_path / "run"
    train_federated(tiny_config(private_store, *options), run_dir)
    run = RunDirectory(run_dir)
    out = tmp_path / "public" / "keyboard.tflite"
    arguments = [str(run_dir), f"--out={out}", "--allow-little-text", "--allow-loss"]
    assert cli.launch(export_task, arguments) == cli.OK
    assert cli.launch(report_task, [str(run_dir), f"--out={out.parent / 'report.html'}"]) == cli.OK
    capsys.readouterr()
    if run.privacy_ledger.exists():
        shutil.copy(run.privacy_ledger, out.parent)
        assert cli.launch(privacy_task, [str(run_dir)]) == cli.OK
        (out.parent / "statement.txt").write_text(capsys.readouterr().out)
    shutil.copy(run.metrics_jsonl, out.parent)
    shutil.copy(run.model / "model.json", out.parent)
    card = run.data_card()
    secrets = {
        "store": card["store_sha256"],
        "lengths": card["lengths_sha256"],
        "card": hashlib.sha256(run.data_card_path.read_bytes()).hexdigest(),
        **{entry["name"]: entry["sha256"] for entry in card["inputs"]},
        **{f"hash of {name}": digest for name, digest in card.get("sha256", {}).items()},
        "words": f"<td>{card['populations']['train']['words']:,}</td>",
    }
    published = {path.name: path.read_bytes() for path in sorted(out.parent.iterdir())}
    places = {
        name: [file for file, content in published.items() if secret.encode() in content]
        for name, secret in secrets.items()
    }
    if options == PRIVATE:
        assert not any(places.values()), places
    else:  # the test sees them where they may be
        assert places["card"] == ["keyboard.json"]
        assert places["store"] == places["words"] == ["report.html"]
