"""The task compare, end to end."""

import dataclasses
import json

import numpy as np
import pytest

from tasks.evaluate import compare as compare_task
from tests.support.fakes import ledger_header, save_untrained_run, tiny_config
from tff_keyboard.command_line import cli
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.predictors.ngram import ngram_file, ngram_spec
from tff_keyboard.predictors.ngram.kneser_ney import KneserNey
from tff_keyboard.privacy.ledger.ledger import PrivacyLedger
from tff_keyboard.storage.errors import RunDirectoryError
from tflite_export.runtime import libcifg


@pytest.fixture(scope="module")
def data_root(store, tmp_path_factory):
    """Returns a folder with a store, a run directory of an untrained CIFG, and a saved n-gram."""
    folder = tmp_path_factory.mktemp("compare")
    (folder / "store").symlink_to(store)
    config = tiny_config(
        folder / "store", "data.max_length=6", "model.units=9", "model.embedding_size=5"
    )
    save_untrained_run(folder / "run", config)
    store = ClientStore(folder / "store")
    spec = ngram_spec.parse("ngram:40kB")
    _, data = ngram_spec.train(spec, store.all_messages("train"), store.vocabulary)
    assert data is not None
    (folder / "saved.ngram").write_bytes(data)
    return folder


def compare(models, **options):
    """Runs the task on these models."""
    return compare_task.run(compare_task.Options(models=tuple(models), **options))


def test_compares_models_of_all_kinds(data_root, tmp_path, capsys):
    models = [str(data_root / "run"), "ngram:40kB", "unigram", str(data_root / "saved.ngram")]
    arguments = [*models, f"--out={tmp_path / 'out'}"]
    assert cli.launch(compare_task, arguments) == cli.OK
    result = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert [model["model"]["name"] for model in result["models"]] == [
        "run",
        "ngram:40kB",
        "unigram",
        "saved.ngram",
    ]
    by_name = {model["model"]["name"]: model["metrics"] for model in result["models"]}
    assert by_name["ngram:40kB"] == by_name["saved.ngram"]
    for better, worse in (("ngram:40kB", "unigram"), ("unigram", "run")):
        for name in ("recall_at_3_no_eos", "kss"):
            assert by_name[better][name]["value"] > by_name[worse][name]["value"]
    verdicts = {row["model"]: row["metrics"]["kss"]["verdict"] for row in result["differences"]}
    assert verdicts["ngram:40kB"] == "better"
    store = ClientStore(data_root / "store")
    assert len(result["text"]["people"]) == len(store.client_ids("held_out"))
    assert not [p for p in (tmp_path / "out").iterdir() if p.name.startswith(".")]
    shown = capsys.readouterr().out
    assert "keystrokes saved" in shown
    assert "better" in shown


@pytest.mark.slow
def test_whole_messages_keep_every_word(data_root, tmp_path, capsys):
    models = [str(data_root / "run"), "unigram", "--all", f"--out={tmp_path}"]
    assert cli.launch(compare_task, models) == cli.OK
    text = json.loads((tmp_path / "comparison.json").read_text())["text"]
    assert (text["words_left_out"], text["max_length"]) == (0, 0)
    shown = capsys.readouterr().out
    assert "left out" not in shown
    for part in ("by slice", "first word", "out of vocabulary", "expected calibration error"):
        assert part in shown


@pytest.mark.slow
def test_only_the_first_messages_of_each_client_are_read(data_root, tmp_path):
    some = {"store": data_root / "store", "out": tmp_path}
    store = ClientStore(data_root / "store")
    first = [store.words("held_out", person)[:2] for person in store.client_ids("held_out")]
    actual = compare(["unigram"], max_messages=2, **some).text.words
    assert actual == sum(len(message) for person in first for message in person)
    assert actual < compare(["unigram"], **some).text.words


@pytest.mark.slow
def test_a_hybrid_learns_while_it_is_compared(data_root, tmp_path):
    run = str(data_root / "run")
    comparison = compare([f"hybrid:6kB:{run}", run, "ngram:6kB"], out=tmp_path)
    hybrid, network, ngram = comparison.evaluations
    assert hybrid.model.kind == "hybrid"
    assert hybrid.model.name == "hybrid:run"
    assert hybrid.model.details["ngram_bytes"] <= 6000
    assert "'validation'" in hybrid.model.details["weights_fitted_on"]
    assert len(hybrid.model.details["weights"]) == 12
    for metric in ("perplexity", "recall_at_3_no_eos"):
        values = [e.metrics[metric].value for e in (hybrid, network, ngram)]
        assert values[0] < min(values[1:]) if metric == "perplexity" else values[0] > values[1]
    assert hybrid.sums["oov_hits_at_3"].sum() > 0
    assert ngram.sums["oov_hits_at_3"].sum() == 0
    for name in ("tokens", "oov_tokens", "characters", "examples"):
        np.testing.assert_array_equal(hybrid.sums[name], network.sums[name])


@pytest.mark.slow
def test_compares_ngrams_of_every_size(data_root, tmp_path):
    models = ["ngram", "ngram:1k", "ngram:6kB"]
    result = compare(models, store=data_root / "store", out=tmp_path)
    whole, pruned, file = (model.model.details for model in result.evaluations)
    assert sum(pruned["ngrams"]) == 1000 < sum(whole["ngrams"])
    assert file["bytes"] <= 6000
    assert "bytes" not in pruned
    perplexities = [model.metrics["perplexity"].value for model in result.evaluations]
    assert perplexities[0] != perplexities[1] != perplexities[2]


def test_an_exported_file_is_compared_word_by_word(data_root, tmp_path):
    from tasks.phone import export as export_task

    arguments = [
        str(data_root / "run"),
        f"--out={tmp_path / 'kb.tflite'}",
        "--quantize=none",
        "--noparity",
    ]
    assert cli.launch(export_task, arguments) == cli.OK
    models = [str(data_root / "run"), str(tmp_path / "kb.tflite")]
    result = compare(models, out=tmp_path)
    # The file sorts its rows; in the ids of the run its ties and its perplexity are comparable.
    for name in ("recall_at_3_no_eos", "kss", "perplexity"):
        keras, exported = (model.metrics[name].value for model in result.evaluations)
        assert exported == pytest.approx(keras, rel=1e-4)
        assert name in result.differences[0]
    assert result.evaluations[1].model.kind == "tflite"
    # Slices by frequency follow the run's order of words, not the file's, which is by letters.
    first, second = (model.slices["frequency"] for model in result.evaluations)
    assert {k: v["tokens"].tolist() for k, v in first.items()} == {
        k: v["tokens"].tolist() for k, v in second.items()
    }


@pytest.mark.slow
def test_exported_hybrid_is_compared_as_on_the_phone(data_root, tmp_path):
    from tasks.phone import export as export_task

    file = tmp_path / "kb.tflite"
    arguments = [str(data_root / "run"), f"--out={file}", "--quantize=none", "--ngram=6kB"]
    arguments.append("--no-parity")
    assert cli.launch(export_task, arguments) == cli.OK
    result = compare(
        [str(file), f"network:{file}", f"hybrid:6kB:{data_root / 'run'}"], out=tmp_path
    )
    bundle, network, trained = result.evaluations
    assert [model.model.kind for model in result.evaluations] == ["hybrid", "tflite", "hybrid"]
    assert bundle.model.details["ngram_bytes"] == file.with_suffix(".ngram").stat().st_size
    listed = json.loads(file.with_suffix(".json").read_text())["ngram"]
    assert trained.model.details["ngrams"] == listed["ngrams"]
    assert trained.model.details["ngram_bytes"] == listed["bytes"]
    for name in ("recall_at_3_no_eos", "kss", "perplexity", "recall_at_3_oov"):
        assert bundle.metrics[name].value == pytest.approx(trained.metrics[name].value, rel=1e-3)
    assert network.sums["oov_hits_at_3"].sum() == 0 < bundle.sums["oov_hits_at_3"].sum()
    assert {k: v["tokens"].tolist() for k, v in bundle.slices["frequency"].items()} == {
        k: v["tokens"].tolist() for k, v in trained.slices["frequency"].items()
    }


@pytest.mark.slow
def test_compares_on_a_text_file(data_root, tmp_path):
    text = tmp_path / "phrases.txt"
    text.write_text("".join(f"see you at {n} tomorrow\nok thanks\n" for n in ("one", "two", "six")))
    result = compare(
        [str(data_root / "saved.ngram"), "unigram"],
        text=text,
        store=data_root / "store",
        out=tmp_path / "out",
    )
    assert (result.text.name, len(result.text.people)) == ("phrases.txt", 6)
    assert (result.text.words, result.text.words_left_out, result.text.max_length) == (21, 0, 0)
    assert result.text.pseudo_users
    assert result.text.store == ClientStore(data_root / "store").card_hash
    assert result.text.store_path == str(data_root / "store")


@pytest.mark.parametrize(
    "arguments, code",
    [
        ([], cli.USAGE),
        (["ngram"], cli.USAGE),  # no store
        (["ngram:1.44", "--store={data_root}/store"], cli.USAGE),
        (["ngram:0.1kB", "--store={data_root}/store"], cli.USAGE),
        (["ngram:1M", "nowhere.ngram", "--store={data_root}/store"], cli.BAD_INPUT),
        (["nowhere", "--store={data_root}/store"], cli.USAGE),
        (["hybrid:nowhere", "--store={data_root}/store"], cli.USAGE),
        (["hybrid:1.x.MB:{data_root}/run", "--store={data_root}/store"], cli.USAGE),
        (["hybrid:{data_root}/saved.ngram", "--store={data_root}/store"], cli.USAGE),
        (["hybrid:0.1kB:{data_root}/run", "--store={data_root}/store"], cli.USAGE),
        (["ngram", "ngram", "--store={data_root}/store"], cli.USAGE),
        (["ngram", "--text={data_root}/none.txt"], cli.USAGE),
        (["{data_root}/saved.ngram", "--text={data_root}/none.txt"], cli.BAD_INPUT),
        (["unigram", "--store={data_root}/run"], cli.BAD_INPUT),
        (["unigram", "--store={data_root}/store", "--clients=train_later"], cli.BAD_INPUT),
        (["unigram", "--store={data_root}/store", "--max-messages=-1"], cli.USAGE),
        (["unigram", "--store={data_root}/store", "--max-messages=2", "--cluster=a:1"], cli.USAGE),
    ],
)
def test_refuses_with_one_line(data_root, tmp_path, capsys, arguments, code):
    words = [word.format(data_root=data_root) for word in arguments]
    assert cli.launch(compare_task, [*words, f"--out={tmp_path}"]) == code
    error = capsys.readouterr().err.strip().splitlines()
    assert error[-1].startswith("error: ")


@pytest.mark.slow
def test_unwritable_folder_is_reported_before_the_computation(data_root, tmp_path, capsys):
    (tmp_path / "file").write_text("not a folder")
    out = tmp_path / "file" / "out"
    assert cli.launch(compare_task, [str(data_root / "run"), f"--out={out}"]) == cli.MACHINE
    captured = capsys.readouterr()
    assert captured.err.startswith(f"error: Cannot write {out}: Not a directory.")
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_writes_no_files_without_out(data_root, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    compare([str(data_root / "saved.ngram")], store=data_root / "store")
    assert not list(tmp_path.iterdir())
    assert "--out=FOLDER" in capsys.readouterr().out


@pytest.mark.slow
def test_a_failed_write_leaves_the_old_comparison(data_root, tmp_path, monkeypatch, capsys):
    (tmp_path / "comparison.json").write_text("old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tff_keyboard.storage.files.os.fsync", full)
    models = [str(data_root / "saved.ngram"), f"--store={data_root / 'store'}"]
    assert cli.launch(compare_task, [*models, f"--out={tmp_path}"]) == cli.MACHINE
    assert "comparison.json: No space left on device." in capsys.readouterr().err
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "comparison.json": "old"
    }


@pytest.mark.slow
def test_models_with_other_token_rules_are_rejected(data_root, tmp_path, capsys):
    from tff_keyboard.data.vocabulary import NormalisationRules, Vocabulary

    store = ClientStore(data_root / "store")
    whitespace = Vocabulary(store.vocabulary.words, NormalisationRules(mode="whitespace"))
    model = KneserNey.train([np.array([4, 5])], vocabulary_size=len(whitespace), order=2)
    (tmp_path / "other.ngram").write_bytes(ngram_file.encode(model, whitespace))
    arguments = ["unigram", str(tmp_path / "other.ngram"), f"--store={data_root / 'store'}"]
    assert cli.launch(compare_task, [*arguments, f"--out={tmp_path}"]) == cli.USAGE
    assert "different tokenisation rules" in capsys.readouterr().err


@pytest.mark.slow
def test_two_runs_with_one_noise_key_are_not_compared(tmp_path):
    runs = [tmp_path / name for name in ("a", "b")]
    for run in runs:
        header = dataclasses.replace(ledger_header(), key_id="ab")
        PrivacyLedger(run / "privacy_ledger.jsonl", header)
    with pytest.raises(RunDirectoryError, match="share a noise key"):
        compare([str(run) for run in runs], out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


SHIPPED = "models/messages/keyboard.tflite"


@pytest.mark.slow
def test_interpreter_is_used_if_libcifg_is_broken(tmp_path, monkeypatch):
    text = tmp_path / "text.txt"
    text.write_text("see you later\nwhere are you now\n" * 5)

    def sums():
        actual = compare([SHIPPED], text=text, out=tmp_path / "out")
        return actual.first.sums

    monkeypatch.setattr(libcifg, "built_library", lambda: None)
    expected = sums()
    monkeypatch.setattr(libcifg, "built_library", lambda: text)
    np.testing.assert_equal(sums(), expected)
