"""A set of files is the old one or the new one, whenever its writer is killed."""

import pathlib
import shutil

import pytest

from tff_keyboard.storage import directories, file_sets

OLD = {"k.a": "old a", "k.b": "old b", "k.old": "old only"}
NEW = {"k.a": "new a", "k.b": "new b", "k.new": "new only"}
OTHERS = {"readme": "not of the set"}


class Killed(BaseException):
    """Stands for SIGKILL: nothing of ours runs after it."""


def content(folder):
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


def publish(folder, files=NEW):
    with directories.scratch_directory(folder / "k.a") as staged:
        for name, text in {**files, "scratch": "left over"}.items():
            (staged / name).write_text(text)
        file_sets.publish(staged, folder / "k.a", list(files), ["k.old", "k.new"])


def old_set(folder):
    folder.mkdir()
    for name, text in {**OLD, **OTHERS}.items():
        (folder / name).write_text(text)
    return folder


def test_replaces_an_older_set(tmp_path):
    folder = old_set(tmp_path / "f")
    publish(folder)
    assert content(folder) == NEW | OTHERS
    assert sorted(path.name for path in folder.iterdir()) == sorted(NEW | OTHERS)
    publish(folder, OLD)
    assert content(folder) == OLD | OTHERS


def test_a_first_set_makes_its_folder(tmp_path):
    publish(tmp_path / "deep" / "f")
    assert content(tmp_path / "deep" / "f") == NEW


@pytest.mark.parametrize("nth", range(1, 12))
@pytest.mark.parametrize("on_disk", [False, True], ids=["before the call", "after the call"])
def test_a_kill_at_any_change_leaves_one_whole_set(tmp_path, monkeypatch, nth, on_disk):
    folder = old_set(tmp_path / "f")
    calls = 0

    def counted(call):
        def change(*arguments, **options):
            nonlocal calls
            calls += 1
            if calls == nth and not on_disk:
                raise Killed
            try:
                return call(*arguments, **options)
            finally:
                if calls == nth:
                    raise Killed

        return change

    with monkeypatch.context() as patch:
        for name in ("replace", "unlink", "rename"):
            patch.setattr(pathlib.Path, name, counted(getattr(pathlib.Path, name)))
        patch.setattr(directories, "exchange", counted(directories.exchange))
        patch.setattr(shutil, "rmtree", counted(shutil.rmtree))
        killed = False
        try:
            publish(folder)
        except Killed:
            killed = True
    assert killed or calls < nth
    file_sets.finish(folder / "k.a")
    found = content(folder)
    assert found in (OLD | OTHERS, NEW | OTHERS)
    publish(folder)
    assert content(folder) == NEW | OTHERS
    assert not list(folder.glob(".*"))


def test_an_error_before_the_rename_leaves_the_old_set(tmp_path, monkeypatch):
    folder = old_set(tmp_path / "f")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tff_keyboard.storage.partial.sync", full)
    with pytest.raises(OSError, match="No space left"):
        publish(folder)
    assert content(folder) == OLD | OTHERS


def test_a_planted_list_removes_nothing_elsewhere(tmp_path):
    folder = old_set(tmp_path / "f")
    (tmp_path / "mine").write_text("1")
    ready = folder / ".k.a.ready"
    ready.mkdir()
    (ready / ".gone").write_text('["../mine", "k.old"]')
    file_sets.finish(folder / "k.a")
    assert (tmp_path / "mine").exists()
    assert not (folder / "k.old").exists()
