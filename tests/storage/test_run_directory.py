"""A run directory is created once, resumed only with its own config and data, by one training."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import textwrap

import pytest

from tff_keyboard.storage import environment, in_progress
from tff_keyboard.storage.errors import ProgramError, RunDirectoryError
from tff_keyboard.storage.run_directory import RunDirectory

ROOT = pathlib.Path(__file__).parents[2]
CONFIG = "[train]\nrounds = 3\nseed = 1\n"
CARD = json.dumps({"users": {"train": 10}, "hash": "abc"})


def create(path, config=CONFIG, card=CARD, **options):
    return RunDirectory.create(path, config_text=config, data_card_text=card, **options)


def test_creates_resumes_and_opens(tmp_path):
    path = tmp_path / "runs" / "one"
    with create(path, vocabulary_text="words\n") as run:
        assert run.config_path.read_text() == CONFIG
    with create(path, vocabulary_text="words\n"):
        pass
    run = RunDirectory.open(path)
    assert run.config_text() == CONFIG
    assert run.data_card() == json.loads(CARD)
    assert run.vocabulary_path.read_text() == "words\n"
    environment = run.environment()
    assert environment["packages"]["tensorflow-federated"]
    assert environment["python"] == ".".join(map(str, sys.version_info[:3]))


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(config=CONFIG.replace("1", "2")), "`train.seed` was 1, and is 2 now"),
        (dict(config=CONFIG + "new = 1\n"), "`train.new` was not set, and is 1 now"),
        (dict(card=CARD.replace("10", "11")), "`users.train` was 10, and is 11 now"),
        (dict(vocabulary_text="other\n"), "vocabulary differs"),
    ],
    ids=["changed", "new", "card", "vocabulary"],
)
def test_refuses_to_resume_something_else(tmp_path, options, message):
    create(tmp_path / "run", vocabulary_text="words\n").close()
    with pytest.raises(ProgramError, match=message):
        create(tmp_path / "run", **options)
    assert RunDirectory.open(tmp_path / "run").config_text() == CONFIG


def test_some_keys_may_change(tmp_path):
    create(tmp_path).close()
    longer = CONFIG.replace("3", "9")
    create(tmp_path, longer, may_change=["train.rounds"]).close()
    assert RunDirectory.open(tmp_path).config_text() == longer


def test_one_training_at_a_time(tmp_path):
    with (
        create(tmp_path),
        pytest.raises(ProgramError, match=rf"Another training \(process {os.getpid()}\)"),
    ):
        create(tmp_path)
    create(tmp_path).close()


def test_a_killed_training_gives_the_lock_back(tmp_path):
    program = textwrap.dedent(
        """
        import sys, time
        from tff_keyboard.storage.run_directory import RunDirectory
        run = RunDirectory.create(sys.argv[1], config_text=sys.argv[2], data_card_text="{}")
        print("locked", flush=True)
        time.sleep(600)
        """
    )
    command = [sys.executable, "-c", program, str(tmp_path), CONFIG]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as holder:
        assert holder.stdout.readline()
        with pytest.raises(ProgramError, match="Another training"):
            create(tmp_path, card="{}")
        holder.send_signal(signal.SIGKILL)
    create(tmp_path, card="{}").close()


def test_a_kill_during_creation_leaves_no_run(tmp_path, monkeypatch):
    def killed(self, path, text):
        if path.name == "config.toml":
            raise KeyboardInterrupt
        original(self, path, text)

    original = RunDirectory._write_text
    with monkeypatch.context() as patch:
        patch.setattr(RunDirectory, "_write_text", killed)
        with pytest.raises(KeyboardInterrupt):
            create(tmp_path, truecase_text="NUS\n")
    assert not RunDirectory(tmp_path).exists()
    create(tmp_path, truecase_text="NUS\n").close()  # the same command resumes


def damage_config(run):
    run.config_path.write_text("[train")


def damage_encoding(run):
    run.config_path.write_bytes(b"\xff")


def damage_card(run):
    run.data_card_path.write_text("{")


def damage_environment(run):
    run.environment_path.write_text("[]")


def remove_card(run):
    run.data_card_path.unlink()


def remove_config(run):
    run.metrics_jsonl.write_text("")
    run.config_path.unlink()


@pytest.mark.parametrize(
    "damage, message",
    [
        (damage_config, r"config\.toml is damaged: it is not valid TOML"),
        (damage_encoding, r"config\.toml is damaged: it is not UTF-8"),
        (damage_card, r"data_card\.json is damaged: it is not valid JSON"),
        (damage_environment, r"environment\.json is damaged: it does not hold"),
        (remove_card, r"data_card\.json is missing"),
        (remove_config, r"config\.toml is missing, but rounds were completed"),
    ],
)
def test_damage_is_one_line_and_changes_nothing(tmp_path, damage, message):
    run = create(tmp_path)
    run.close()
    damage(run)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(RunDirectoryError, match=message) as raised:
        create(tmp_path)
    assert "\n" not in str(raised.value)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_missing_environment_is_described_again(tmp_path):
    create(tmp_path).close()
    RunDirectory(tmp_path).environment_path.unlink()
    create(tmp_path).close()
    assert RunDirectory(tmp_path).environment()["packages"]


@pytest.mark.parametrize("part", ["lock_path", "metrics_jsonl", "privacy_ledger", "config_path"])
def test_a_link_in_place_of_a_file_is_refused_and_not_written_through(tmp_path, part):
    other = tmp_path / "other"
    other.write_text("mine")
    run = create(tmp_path / "run")
    run.close()
    getattr(run, part).unlink(missing_ok=True)
    getattr(run, part).symlink_to(other)
    with pytest.raises(RunDirectoryError, match="is a link"):
        create(tmp_path / "run")
    assert other.read_text() == "mine"


PARTS_THAT_ARE_FOLDERS = (
    *("model", "last_model", "checkpoints", "tensorboard", "round_server"),
    *("model/weights.npz", "checkpoints/round_00000001.checkpoint", "round_server/blobs"),
    *("round_server/blobs/old", "tensorboard/logs"),
)


@pytest.mark.parametrize("part", PARTS_THAT_ARE_FOLDERS)
def test_a_link_in_or_to_a_folder_of_a_run_is_refused(tmp_path, part):
    """The folder of a stranger's archive: resuming deleted the folder to which `model` linked."""
    thesis = tmp_path / "thesis"
    thesis.mkdir()
    (thesis / "chapter1.tex").write_text("mine")
    run = create(tmp_path / "run")
    run.close()
    first, *rest = part.split("/")
    link = getattr(run, first).joinpath(*rest)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(thesis)
    with pytest.raises(RunDirectoryError, match=rf"{link} is a link") as caught:
        create(tmp_path / "run")
    assert "\n" not in str(caught.value)
    assert [path.name for path in thesis.iterdir()] == ["chapter1.tex"]


@pytest.mark.parametrize("part", ["privacy_ledger", "lock_path", "checkpoints"])
def test_a_pipe_in_a_run_is_refused(tmp_path, part):
    run = create(tmp_path / "run")
    run.close()
    getattr(run, part).unlink(missing_ok=True)
    os.mkfifo(getattr(run, part))
    with pytest.raises(RunDirectoryError, match="neither a regular file nor a directory"):
        create(tmp_path / "run")


def test_a_model_with_other_files_is_refused_before_the_training(tmp_path):
    run = create(tmp_path / "run")
    run.close()
    run.model.mkdir()
    (run.model / "chapter1.tex").write_text("mine")
    with pytest.raises(RunDirectoryError, match=r"model cannot be replaced: it has 'chapter1.tex'"):
        create(tmp_path / "run")
    assert (run.model / "chapter1.tex").read_text() == "mine"


def test_next_start_removes_leftovers(tmp_path):
    run = create(tmp_path)
    run.close()
    run.checkpoints.mkdir()
    in_progress.new_name(run.model).mkdir()
    (in_progress.new_name(run.config_path)).write_text("half")
    (in_progress.new_name(run.checkpoints / "round_00000001.checkpoint")).write_text("half")
    create(tmp_path).close()
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith(".")]


def test_rows(tmp_path):
    with create(tmp_path) as run:
        assert run.rows() == []
        run.metrics_jsonl.write_text('{"round": 1, "loss": 2.5}\n{"round": 2, "lo')
        assert run.rows() == [{"round": 1, "loss": 2.5}]
        run.metrics_jsonl.unlink()
        run.model.mkdir()
        with pytest.raises(RunDirectoryError, match="is missing, but rounds were completed"):
            run.rows()


def test_evaluations(tmp_path):
    run = RunDirectory(tmp_path)
    assert run.evaluation_path("held_out").name == "evaluation_held_out.json"
    assert run.evaluation_path("validation", "0a1b").name == "evaluation_validation_0a1b.json"


def test_refuses_other_directories(tmp_path):
    (tmp_path / "photo.jpg").write_text("")
    with pytest.raises(ProgramError, match=r"has 'photo\.jpg'"):
        create(tmp_path)
    with pytest.raises(ProgramError, match="is a file"):
        create(tmp_path / "photo.jpg")
    assert list(tmp_path.iterdir()) == [tmp_path / "photo.jpg"]


def test_open_reports_the_problem(tmp_path):
    with pytest.raises(ProgramError, match="does not exist"):
        RunDirectory.open(tmp_path / "missing")
    (tmp_path / "file").write_text("")
    with pytest.raises(ProgramError, match="is a file"):
        RunDirectory.open(tmp_path / "file")
    create(tmp_path / "demo").close()
    with pytest.raises(ProgramError, match=r"no config\.toml.*Did you mean .*demo\?"):
        RunDirectory.open(tmp_path)


def test_read_only(tmp_path, monkeypatch):
    def refuse(*unused_arguments, **unused_options):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(ProgramError, match="Read-only file system"):
        create(tmp_path)


def test_warns_when_packages_changed(tmp_path, monkeypatch):
    create(tmp_path).close()
    changed = environment.describe()
    changed["packages"]["tensorflow"] = "9.9"
    monkeypatch.setattr(environment, "describe", lambda: changed)
    with pytest.warns(UserWarning, match=r"packages\.tensorflow = .* is 9\.9 now"):
        create(tmp_path).close()


def test_new_key_has_its_default_in_old_runs(tmp_path):
    files = {"data_card_text": "{}"}
    RunDirectory.create(tmp_path / "run", config_text="[a]\nb = 1\n", **files).close()
    newer = "[a]\nb = 1\nnew = 7\n"
    RunDirectory.create(
        tmp_path / "run",
        config_text=newer,
        of_this_version=lambda text, origin: text + "new = 7\n",
        **files,
    ).close()
    assert RunDirectory.open(tmp_path / "run").config_text() == newer
    RunDirectory.create(tmp_path / "other", config_text="[a]\nb = 1\n", **files).close()
    changed = "[a]\nb = 1\nnew = 8\n"
    with pytest.raises(Exception, match=r"`a\.new` was 7, and is 8 now"):
        RunDirectory.create(
            tmp_path / "other",
            config_text=changed,
            of_this_version=lambda text, origin: text + "new = 7\n",
            **files,
        )
