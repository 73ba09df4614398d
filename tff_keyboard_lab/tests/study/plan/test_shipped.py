"""Studies by name: the order of folders, and the error for an unknown name."""

import pathlib

import pytest

from tff_keyboard.storage import shipped_files
from tff_keyboard.storage.errors import UsageError
from tff_keyboard_lab.study.plan import shipped

FOLDER = pathlib.Path("configs", "studies")


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Creates a repository with the studies `both` and `theirs`, and enters the folder `here`."""
    for name in ("both", "theirs"):
        study(tmp_path / "repository", name)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(shipped_files, "ROOT", tmp_path / "repository")
    return tmp_path


def study(folder, name):
    path = folder / FOLDER / f"{name}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    return path


def found(word):
    return shipped.find(pathlib.Path(word))


def test_local_studies_win_over_shipped_ones(folders):
    assert found("both") == folders / "repository" / FOLDER / "both.toml"
    study(folders / "here", "both")
    assert found("both") == FOLDER / "both.toml"
    assert found("theirs") == folders / "repository" / FOLDER / "theirs.toml"


@pytest.mark.parametrize("path", ["both.toml", "./x/both", "none.toml", "/both"])
def test_a_path_is_left_as_it_is(folders, path):
    assert found(path) == pathlib.Path(path)


def test_a_file_without_an_ending_is_a_path_and_a_folder_is_not(folders):
    pathlib.Path("both").mkdir()  # such as the working folder of the study
    assert found("both").name == "both.toml"
    pathlib.Path("theirs").write_text("")
    assert found("theirs") == pathlib.Path("theirs")


def test_an_unknown_name_lists_what_there_is(folders):
    study(folders / "here", "a")
    with pytest.raises(UsageError) as caught:
        found("their")
    text = str(caught.value)
    assert text.startswith("No study is named 'their'. Did you mean theirs? Studies: a, both, th")
    assert "\n" not in text
    assert caught.value.exit_code == 2


def test_folder_without_studies_asks_for_a_path(folders, monkeypatch):
    monkeypatch.setattr(shipped_files, "ROOT", folders / "site-packages")
    with pytest.raises(UsageError, match=r"there is no configs/studies here\. Pass the path"):
        found("both")


def test_shipped_studies_are_found_from_anywhere(tmp_path, monkeypatch):
    root = pathlib.Path(__file__).parents[4]
    monkeypatch.chdir(tmp_path)
    for path in (root / FOLDER).glob("*.toml"):
        assert found(path.stem) == path
