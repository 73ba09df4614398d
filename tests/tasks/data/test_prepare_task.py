"""The prepare task from the command line."""

import pathlib
import re
import subprocess
import sys

import pytest

from tasks.data import prepare
from tff_keyboard.command_line import cli
from tff_keyboard.config.sections.data_config import DataConfig
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.vocabulary import NUM_SPECIAL, OOV, Vocabulary
from tff_keyboard.storage.errors import DataError

ROOT = pathlib.Path(__file__).parents[3]


def command(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "tasks", "prepare", *map(str, arguments)],
        cwd=cwd,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )


def test_prepare_of_own_messages_is_repeatable(tmp_path, capsys):
    lines = [f"user{n % 30}\tsee you at {n}" for n in range(300)]
    (tmp_path / "my.tsv").write_text("\n".join(lines))
    done = command("my.tsv", "--out=mine", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (cli.OK, "")
    assert "mine: prepared in" in done.stdout
    assert "held_out" in done.stdout
    card = ClientStore(tmp_path / "mine").card
    assert card["options"]["source"] == "tsv"
    prepare.run(prepare.Options(inputs=(str(tmp_path / "my.tsv"),), out=tmp_path / "mine"))
    assert "mine: up to date" in capsys.readouterr().out
    assert ClientStore(tmp_path / "mine").card == card


def test_tables_and_chats_by_their_ending(tmp_path, capsys):
    rows = [f'{n},user{n % 30},"see you, at {n}"' for n in range(300)]
    (tmp_path / "my.csv").write_text("\n".join(["id,who,said", *rows]))
    own = (str(tmp_path / "my.csv"),)
    with pytest.raises(DataError, match=r"my\.csv:1: cannot find the client column"):
        prepare.run(prepare.Options(inputs=own, out=tmp_path / "a"))
    prepare.run(
        prepare.Options(inputs=own, out=tmp_path / "a", client_column="who", text_column="said")
    )
    printed = capsys.readouterr().out
    assert "columns: client 'who', text 'said'; in the order of the file" in printed
    card = ClientStore(tmp_path / "a").card
    assert card["options"]["source"] == "csv"
    assert sum(part["messages"] for part in card["populations"].values()) == 300
    (tmp_path / "Chat with Zebra.txt").write_text(
        "".join(f"31.12.23, 21:41 - user{n % 30}: see you soon\n" for n in range(300))
    )
    prepare.run(
        prepare.Options(inputs=(str(tmp_path / "Chat with Zebra.txt"),), out=tmp_path / "b")
    )
    card = ClientStore(tmp_path / "b").card
    assert card["options"]["source"] == "whatsapp"
    assert sum(part["clients"] for part in card["populations"].values()) == 30
    assert "Zebra" not in (tmp_path / "b" / "data_card.json").read_text()


def test_columns_of_a_source_without_columns_are_rejected(tmp_path, capsys):
    arguments = ["--client-column=who", "--set=data.source=text", "a", f"--out={tmp_path / 'x'}"]
    assert cli.launch(prepare, arguments) == cli.USAGE
    assert "`data.client_column` must be empty with `data.source` = 'text'" in (
        capsys.readouterr().err
    )


def test_quotes_of_a_quoted_sheet_are_removed(tmp_path, capsys):
    rows = "".join(f'"user{n % 30}"\t"see ""you"" soon"\n' for n in range(300))
    (tmp_path / "my.tsv").write_text(f'"user"\t"text"\n{rows}')
    arguments = [str(tmp_path / "my.tsv"), f"--out={tmp_path / 'mine'}"]
    assert cli.launch(prepare, [*arguments, "--set=data.source=tsv"]) == cli.BAD_INPUT
    assert "my.tsv:1: the user is in quotation marks" in capsys.readouterr().err
    assert cli.launch(prepare, arguments) == cli.OK
    assert "skipped: 1 header" in capsys.readouterr().out
    card = ClientStore(tmp_path / "mine").card
    assert sum(part["clients"] for part in card["populations"].values()) == 30


def test_text_without_spaces_stops_in_one_line(tmp_path, capsys):
    lines = "".join(f"user{n % 30}\t我们明天早上在学校门口见面\n" for n in range(300))
    (tmp_path / "my.tsv").write_text(lines)
    arguments = [str(tmp_path / "my.tsv"), f"--out={tmp_path / 'mine'}"]
    assert cli.launch(prepare, arguments) == cli.BAD_INPUT
    error = capsys.readouterr().err
    assert "the text is Chinese or Japanese without spaces between words" in error
    assert len(error.splitlines()) == 1
    assert "我" not in error
    assert not (tmp_path / "mine").exists()


def test_parquet_without_its_extra(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "my.parquet").write_bytes(b"PAR1")
    arguments = [str(tmp_path / "my.parquet"), f"--out={tmp_path / 'mine'}"]
    assert cli.launch(prepare, arguments) == cli.MACHINE
    assert "pip install 'tff-keyboard[parquet]'" in capsys.readouterr().err


def test_shipped_vocabulary_is_found_from_any_folder(tmp_path):
    """Training can then start from the model: `--set=model.initial_model=models/base`."""
    (tmp_path / "my.tsv").write_text("\n".join(f"u{n % 30}\tsee you soon zqzq" for n in range(300)))
    done = command("my.tsv", "--out=mine", "--vocabulary=models/base", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (cli.OK, "")
    shipped = Vocabulary.load(ROOT / "models" / "base" / "model" / "vocabulary.txt")
    store = ClientStore(tmp_path / "mine")
    assert store.vocabulary == shipped
    (person, *_) = store.client_ids("train")
    assert store.messages("train", person)[0].tolist() == [
        *shipped.encode(["see", "you", "soon"]),
        OOV,
    ]
    done = command("my.tsv", "--out=other", "--vocabulary=models", cwd=tmp_path)
    assert done.returncode == 3
    assert "there is no saved model" in done.stderr


def test_bad_input_is_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("my.tsv").write_text("user1\thello\nsecret\n")
    assert cli.launch(prepare, ["my.tsv", "--out=mine"]) == cli.BAD_INPUT
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert captured.err.startswith("error: my.tsv:2: the line has no tab")
    assert "secret" not in captured.err
    assert not pathlib.Path("mine").exists()


SMALL = ("data.synthetic_typists=30", "data.synthetic_messages=5")


def test_run_describes_its_store(tmp_path, capsys):
    prepare.run(prepare.Options(out=tmp_path / "demo", set=SMALL))
    printed = capsys.readouterr().out
    card = ClientStore(tmp_path / "demo").card
    assert f"{card['populations']['train']['messages']:,}" in printed
    words = card["vocabulary"]["rows"] - NUM_SPECIAL
    assert f"vocabulary: {words:,} words and {NUM_SPECIAL} special rows" in printed


def test_run_uses_the_store_of_the_config(tmp_path):
    store = str(tmp_path / "configured")
    prepare.run(prepare.Options(set=(*SMALL, f"data.store={store}")))
    assert ClientStore(store).client_ids("train")


def test_penn_treebank_in_its_usual_files(tmp_path):
    """A made-up miniature in its form: a sentence a line, blanks around it, `<unk>` and `N`."""
    lines = (" the <unk> of N shares fell N N \n", " it did n't say mr. <unk> 's\n")
    for part, count in (("train", 40), ("valid", 4), ("test", 6)):
        (tmp_path / f"ptb.{part}.txt").write_text("".join(lines[i % 2] for i in range(count)))
    settings = (f'data.input=["{tmp_path}"]', "data.num_shards=4")
    prepare.run(
        prepare.Options(
            config=ROOT / "configs/penn_treebank.toml", out=tmp_path / "store", set=settings
        )
    )
    store = ClientStore(tmp_path / "store")
    words = store.vocabulary.words[NUM_SPECIAL:]
    assert set(words) == {word for line in lines for word in line.split()} - {"<unk>"}
    assert len(store.client_ids("train")) == 4
    (first, *_) = (m for m in store.messages("train", store.client_ids("train")[0]) if len(m) == 8)
    assert first.tolist() == [
        OOV if word == "<unk>" else words.index(word) + NUM_SPECIAL for word in lines[0].split()
    ]


def test_input_chooses_a_source_that_takes_it(tmp_path):
    def chosen(*inputs, **options):
        return prepare.Options(inputs=inputs, out=tmp_path, **options).data_config()

    assert chosen("a.tsv").source == "tsv"
    assert chosen(str(tmp_path)).source == "text"
    stack_overflow = ("data.source=stackoverflow", 'data.input=["b.sqlite"]')
    kept = chosen("a.sqlite", set=stack_overflow)
    assert (kept.source, kept.input) == ("stackoverflow", ("a.sqlite",))
    assert prepare.Options().data_config() == DataConfig()


def test_input_requires_an_output_directory(capsys):
    assert cli.launch(prepare, ["my.tsv"]) == cli.USAGE
    assert "Pass --out=FOLDER" in capsys.readouterr().err


@pytest.mark.parametrize(
    "override, says",
    [
        ("data.max_length=1", "`data.max_length` must be >= 2"),
        ("data.mode=letters", "`data.mode` must be one of"),
        ("data.vocab=9", "Did you mean `data.vocab"),
        ("data.input=x.tsv", "`data.input` must be empty with `data.source` = 'synthetic'"),
        ("data.held_out_fraction=0", "clients that the model never trained on"),
        ("data.validation_fraction=0.95", "plus `data.held_out_fraction`"),
        ("data.later_fraction=1", "`data.later_fraction` must be in"),
    ],
)
def test_config_errors(tmp_path, capsys, override, says):
    assert cli.launch(prepare, [f"--set={override}", f"--out={tmp_path / 'x'}"]) == cli.USAGE
    error = capsys.readouterr().err
    assert says in error
    assert len(error.splitlines()) == 1


def test_text_that_the_page_splits_is_prepared(tmp_path, monkeypatch):
    """The code of docs/data.md is run unchanged."""
    pytest.importorskip("budoux")
    page = (ROOT / "docs" / "data.md").read_text()
    (code,) = re.findall(r"```python\n(import budoux.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    text = "วันนี้อากาศดีมากเราไปเดินเล่นที่สวนสาธารณะกันเถอะ"
    pathlib.Path("messages.tsv").write_text("".join(f"u{n % 30}\t{text}\n" for n in range(300)))
    assert cli.launch(prepare, ["messages.tsv", "--out=mine"]) == cli.BAD_INPUT
    exec(compile(code, "docs/data.md", "exec"), {})
    assert cli.launch(prepare, ["split.tsv", "--out=mine"]) == cli.OK
    words = ClientStore(tmp_path / "mine").vocabulary.words[NUM_SPECIAL:]
    assert len(words) > 5
    assert max(map(len, words)) < 16


@pytest.mark.parametrize(("words", "is_said"), [(20, True), (700, False)])
def test_too_few_held_out_clients_are_said_before_the_training(tmp_path, capsys, words, is_said):
    lines = [f"u{user}\t{'a b ' * (words // 2)}" for user in range(40)]
    (tmp_path / "mine.tsv").write_text("\n".join(lines))
    flags = [f"--out={tmp_path / 'store'}", "--set=data.held_out_fraction=0.2", "--set=data.seed=2"]
    assert cli.launch(prepare, [str(tmp_path / "mine.tsv"), *flags]) == cli.OK
    assert ("raise `data.held_out_fraction`" in capsys.readouterr().out) == is_said
