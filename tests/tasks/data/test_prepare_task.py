"""The prepare task from the command line."""

import pathlib
import subprocess
import sys

import pytest

from tasks import cli
from tasks.data import prepare
from tff_keyboard.config.sections.data_config import DataConfig
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.vocabulary import NUM_SPECIAL, OOV, Vocabulary

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


def test_own_messages_in_one_command_and_again(tmp_path, capsys):
    lines = [f"user{n % 30}\tsee you at {n}" for n in range(300)]
    (tmp_path / "my.tsv").write_text("\n".join(lines))
    done = command("--input=my.tsv", "--out=mine", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (cli.OK, "")
    assert "mine: prepared in" in done.stdout
    assert "held_out" in done.stdout
    card = ClientStore(tmp_path / "mine").card
    assert card["options"]["source"] == "tsv"
    prepare.run(prepare.Options(inputs=(str(tmp_path / "my.tsv"),), out=tmp_path / "mine"))
    assert "mine: up to date" in capsys.readouterr().out
    assert ClientStore(tmp_path / "mine").card == card


def test_words_of_the_shipped_model_from_anywhere(tmp_path):
    """Training then begins with it: `--set=model.initial_model=models/base`."""
    (tmp_path / "my.tsv").write_text("\n".join(f"u{n % 30}\tsee you soon zqzq" for n in range(300)))
    done = command("--input=my.tsv", "--out=mine", "--vocabulary=models/base", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (cli.OK, "")
    shipped = Vocabulary.load(ROOT / "models" / "base" / "model" / "vocabulary.txt")
    store = ClientStore(tmp_path / "mine")
    assert store.vocabulary == shipped
    (person, *_) = store.client_ids("train")
    assert store.examples("train", person)[0].tolist() == [
        *shipped.encode(["see", "you", "soon"]),
        OOV,
    ]
    done = command("--input=my.tsv", "--out=other", "--vocabulary=models", cwd=tmp_path)
    assert done.returncode == 3
    assert "there is no saved model here" in done.stderr


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


def test_run_says_what_is_in_the_store(tmp_path, capsys):
    prepare.run(prepare.Options(out=tmp_path / "demo", set=SMALL))
    printed = capsys.readouterr().out
    card = ClientStore(tmp_path / "demo").card
    assert f"{card['populations']['train']['messages']:,}" in printed
    assert f"vocabulary: {card['vocabulary']['rows']:,} rows" in printed


def test_run_uses_the_store_of_the_config(tmp_path):
    store = str(tmp_path / "configured")
    prepare.run(prepare.Options(set=(*SMALL, f"data.store={store}")))
    assert ClientStore(store).client_ids("train")


def test_penn_treebank_as_its_usual_files_have_it(tmp_path):
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
    (first, *_) = (m for m in store.examples("train", store.client_ids("train")[0]) if len(m) == 8)
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


def test_input_without_a_place_for_its_store(capsys):
    assert cli.launch(prepare, ["my.tsv"]) == cli.USAGE
    assert "Give --out=FOLDER" in capsys.readouterr().err


@pytest.mark.parametrize(
    "override, says",
    [
        ("data.max_length=1", "`data.max_length` must be >= 2"),
        ("data.mode=letters", "`data.mode` must be one of"),
        ("data.vocab=9", "Did you mean `data.vocab"),
        ("data.input=x.tsv", "`data.input` must be empty with `data.source` = 'synthetic'"),
        ("data.held_out_fraction=0", "people the model never trained on"),
        ("data.validation_fraction=0.95", "plus `data.held_out_fraction`"),
        ("data.later_fraction=1", "`data.later_fraction` must be in"),
    ],
)
def test_config_errors(tmp_path, capsys, override, says):
    assert cli.launch(prepare, [f"--set={override}", f"--out={tmp_path / 'x'}"]) == cli.USAGE
    error = capsys.readouterr().err
    assert says in error
    assert len(error.splitlines()) == 1
