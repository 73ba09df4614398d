"""The task `export` from a run directory with its store, and text from stores and files."""

import gzip
import hashlib
import json
import shutil

import pytest

from tasks.phone import export as export_task
from tests.support.fakes import ledger_header, save_untrained_run, tiny_config
from tests.support.keyboard import export_fakes
from tff_keyboard.command_line import cli
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.vocabulary import NormalisationRules
from tff_keyboard.privacy.ledger.ledger import PrivacyLedger
from tff_keyboard.storage import names
from tff_keyboard.storage.errors import DataError, ExportError
from tflite_export.gate import texts

RULES = NormalisationRules()


@pytest.fixture(scope="module")
def data_root(store, tmp_path_factory):
    """Returns a folder with a store of synthetic clients and an untrained CIFG's run."""
    folder = tmp_path_factory.mktemp("task")
    (folder / "store").symlink_to(store)
    config = tiny_config(folder / "store", "model.units=10", "model.embedding_size=6")
    save_untrained_run(folder / "run", config)
    return folder


def launch(*arguments):
    """Runs the task with the few words of the shared store, which are too few for a verdict."""
    return cli.launch(export_task, [*map(str, arguments), "--allow-little-text"])


def test_finds_the_store_of_the_run(data_root, tmp_path, capsys):
    out = tmp_path / "k.tflite"
    (data_root / "run" / "truecase.txt").write_text("NUS\nSingapore\n")
    assert launch(data_root / "run", "--out", out, "--quantize", "none") == cli.OK
    shown = capsys.readouterr().out
    assert f"{out}: {out.stat().st_size:,} bytes, none" in shown
    assert "same best word     100.00 %" in shown
    manifest = json.loads(out.with_suffix(".json").read_text())
    assert manifest["model"]["training_length"] == 64  # `data.max_length`
    assert manifest["truecase"] == ["NUS", "Singapore"]
    held_out = ClientStore(data_root / "store").card["populations"]["held_out"]
    assert manifest["parity"]["people"] == held_out["clients"]
    assert manifest["parity"]["words"] == held_out["words"]


def test_failed_gate_names_the_metric_and_prints_all_figures(
    data_root, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("tflite_export.graphs.quantization.INT8_MAX", 1)
    assert launch(data_root / "run", "--out", tmp_path / "k.tflite") == cli.CHECK_FAILED
    captured = capsys.readouterr()
    assert "same best three" in captured.out
    assert len(captured.err.strip().splitlines()) == 1
    assert "--allow-loss" in captured.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], cli.USAGE, "Pass a run directory"),
        (["{run}", "{run}"], cli.USAGE, "got 2"),
        (["{run}", "--quantize=int3"], cli.USAGE, "int3"),
        (["{folder}/nowhere"], cli.BAD_INPUT, "no saved model"),
        (["{run}", "--store={folder}/nowhere"], cli.BAD_INPUT, "nowhere"),
        (["{run}", "--text={folder}/nowhere.txt"], cli.BAD_INPUT, "cannot be read"),
        (["{run}/model"], cli.BAD_INPUT, "names no client store"),
        (["{run}", "--trainable", "--quantize=none"], cli.BAD_INPUT, "`trainable` requires"),
    ],
)
def test_errors_are_one_line(data_root, tmp_path, capsys, arguments, code, message):
    words = [word.format(run=data_root / "run", folder=data_root) for word in arguments]
    assert launch(*words, "--out", tmp_path / "k.tflite") == code
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_reads_whole_clients_until_there_is_enough_text(data_root):
    store = ClientStore(data_root / "store")

    def read(most, seed=1):
        return texts.from_store(
            data_root / "store", "train", store.vocabulary, max_words=most, seed=seed
        )

    everyone = read(10**9)
    assert set(everyone) == set(store.client_ids("train"))
    some = read(100)
    assert all(messages == everyone[name] for name, messages in some.items())
    words = [sum(map(len, messages)) for messages in some.values()]
    assert sum(words[:-1]) < 100 <= sum(words)
    assert read(100) == some
    assert list(read(100, seed=2)) != list(some)


def test_a_store_of_another_vocabulary_is_rejected(data_root):
    with pytest.raises(ExportError, match="its vocabulary differs from the vocabulary of the run"):
        texts.from_store(
            data_root / "store", "train", export_fakes.vocabulary(), max_words=10, seed=1
        )


def test_directory_that_is_not_a_store_is_rejected(data_root):
    with pytest.raises(DataError):
        texts.from_store(
            data_root / "run", "train", export_fakes.vocabulary(), max_words=10, seed=1
        )


@pytest.mark.parametrize("packed", [False, True])
def test_text_with_and_without_names(tmp_path, packed):
    lines = ["ann\tSee you!", "bob\tOk.", "", "ann\tare you home?"]
    path = tmp_path / ("text.tsv.gz" if packed else "text.tsv")
    (gzip.open if packed else open)(path, "wt", encoding="utf-8").write("\n".join(lines))
    assert texts.from_file(path, RULES, max_words=100) == {
        "ann": [["see", "you"], ["are", "you", "home"]],
        "bob": [["ok"]],
    }
    plain = tmp_path / "plain.txt"
    plain.write_text("see you\n" * (texts.LINES_PER_CLIENT + 1))
    actual = texts.from_file(plain, RULES, max_words=1000)
    assert [len(messages) for messages in actual.values()] == [texts.LINES_PER_CLIENT, 1]
    assert sum(map(len, texts.from_file(plain, RULES, max_words=4).values())) == 2


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.txt", b"\xff\xfe\x00"),
        ("a.gz", b"no gzip"),
        ("b.gz", gzip.compress(b"a b" * 99, mtime=0)[:20]),
        ("c.gz", gzip.compress(b"", mtime=0)[:10] + b"\xff" * 20),
    ],
)
def test_binary_file_is_rejected(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ExportError, match=f"{name}: cannot be read as UTF-8 text"):
        texts.from_file(tmp_path / name, RULES, max_words=10)


def test_a_file_without_a_word_is_rejected(tmp_path):
    (tmp_path / "a.txt").write_text("...\n\n!!\n")
    with pytest.raises(ExportError, match="has no words"):
        texts.from_file(tmp_path / "a.txt", RULES, max_words=10)


def test_ngram_is_written_next_to_the_model(data_root, tmp_path, capsys):
    out = tmp_path / "k.tflite"
    arguments = [data_root / "run", "--out", out, "--quantize=none", "--ngram=6kB"]
    assert launch(*arguments) == cli.OK
    shown = capsys.readouterr().out
    sizes = [out.with_suffix(end).stat().st_size for end in (".tflite", ".vocabulary", ".ngram")]
    assert sizes[2] <= 6000
    line = next(line for line in shown.splitlines() if line.startswith("n-gram: "))
    assert f"{sum(sizes[:2]):,} bytes without it, {sum(sizes):,} with it" in line
    assert "top-3 recall, unknown words" in shown
    manifest = json.loads(out.with_suffix(".json").read_text())
    assert manifest["ngram"]["bytes"] == sizes[2]
    assert len(manifest["mixture"]["weights"]) == 12
    assert "'validation'" in manifest["mixture"]["fitted_on"]
    alone, hybrid, _ = manifest["hybrid"]["metrics"]["recall_at_3_no_eos"]
    assert hybrid > alone + 0.1  # the network is untrained


@pytest.mark.parametrize(
    ("size", "code", "message"),
    [("0.5kB", cli.BAD_INPUT, "too few")]
    + [
        (size, cli.USAGE, f"--ngram={size}: must be a size with its unit, such as 500kB")
        for size in ("5", "1k", "x", "100kBB")
    ],
)
def test_invalid_size_is_rejected(data_root, tmp_path, capsys, size, code, message):
    out = tmp_path / "k.tflite"
    assert launch(data_root / "run", "--out", out, f"--ngram={size}") == code
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def private(data_root, tmp_path):
    """Returns the run with a ledger."""
    run = tmp_path / "private"
    shutil.copytree(data_root / "run", run)
    PrivacyLedger(run / names.LEDGER, ledger_header()).record(1, clip_norm=0.5, clients=10)
    return run


@pytest.mark.parametrize(
    "flags",
    [
        ["--ngram=6kB", "--no-parity"],
        ["--tail=9", "--no-parity"],
    ],
    ids=lambda flags: flags[0],
)
@pytest.mark.parametrize("named", [".", "model"])
def test_private_export_contains_no_words_of_its_clients(
    data_root, private, tmp_path, capsys, flags, named
):
    out = tmp_path / "out" / "k.tflite"
    assert launch(private / named, "--out", out, f"--store={data_root / 'store'}", *flags) == (
        cli.BAD_INPUT
    )
    error = capsys.readouterr().err
    assert "was trained with privacy" in error
    assert "the text of the same clients would reveal what its noise hides" in error
    assert len(error.strip().splitlines()) == 1
    assert not out.exists()


def test_a_private_export_with_a_word_list_needs_no_store(private, tmp_path, capsys):
    listed = tmp_path / "list.tsv"
    listed.write_text("zebra\t2\nquince\t1\n")
    out = tmp_path / "k.tflite"
    # A store that is not there: none is read.
    arguments = [private, "--out", out, f"--store={tmp_path / 'no'}", "--no-parity"]
    arguments += ["--tail=9", f"--word-list={listed}"]
    assert launch(*arguments) == cli.OK
    assert "2 words outside the vocabulary, from list.tsv" in capsys.readouterr().out
    manifest = json.loads(out.with_suffix(".json").read_text())
    assert "epsilon" in manifest["privacy"]
    facts = manifest["tail"]
    assert facts["word_list_sha256"] == hashlib.sha256(listed.read_bytes()).hexdigest()
    assert "min_clients" not in facts  # no clients were counted


def test_counted_lexicon_records_its_min_word_users(data_root, tmp_path):
    out = tmp_path / "k.tflite"
    assert launch(data_root / "run", "--out", out, "--tail=200", "--no-parity") == cli.OK
    facts = json.loads(out.with_suffix(".json").read_text())["tail"]
    assert facts["min_clients"] == 2
    assert "word_list_sha256" not in facts


def test_little_text_gives_no_verdict(data_root, tmp_path, capsys):
    arguments = [str(data_root / "run"), f"--out={tmp_path / 'k.tflite'}"]
    assert cli.launch(export_task, arguments) == cli.CHECK_FAILED
    error = capsys.readouterr().err
    assert error.startswith("error: The parity gate needs 1,000 words")
    assert "--allow-little-text" in error
    assert len(error.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_chat_as_text(tmp_path):
    """Dates and names of an exported chat are not read as words."""
    path = tmp_path / "chat.txt"
    path.write_text("31.12.23, 21:41 - Ann: see you\nsoon\n31.12.23, 21:42 - Bo: <Media omitted>\n")
    assert texts.from_file(path, RULES) == {"Ann": [["see", "you", "soon"]]}
    texts.check_client(path, "Ann")
    with pytest.raises(ExportError, match="'Bo' has no messages"):
        texts.check_client(path, "Bo")
