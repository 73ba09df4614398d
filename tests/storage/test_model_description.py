"""`model.json`: found in a run directory or a model folder; errors are one line."""

import json

import pytest

from tff_keyboard.storage.errors import SavedModelError
from tff_keyboard.storage.model_description import FORMAT, read_description

SOUND = {
    "format": FORMAT,
    "name": "cifg",
    "vocabulary_size": 10,
    "options": {"units": 3},
    "sha256": {"weights.npz": "a", "vocabulary.txt": "b"},
}


def write(folder, content):
    folder.mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / "model.json").write_text(text)


def test_found_in_a_run_and_in_a_model_folder(tmp_path):
    write(tmp_path / "run" / "model", SOUND)
    for given in (tmp_path / "run", tmp_path / "run" / "model"):
        assert read_description(given) == (tmp_path / "run" / "model", SOUND)


def test_missing_model_is_an_error_with_the_way_out(tmp_path):
    with pytest.raises(SavedModelError, match=r"no saved model .*Pass the run directory"):
        read_description(tmp_path)


@pytest.mark.parametrize(
    "content, says",
    [
        ("{", "is damaged: it is not valid JSON. Run"),
        ([SOUND], "the format must be"),
        (SOUND | {"format": "of next year"}, "got 'of next year'"),
        (SOUND | {"vocabulary_size": "10"}, "'vocabulary_size' is missing or not a int"),
        ({k: v for k, v in SOUND.items() if k != "options"}, "'options' is missing"),
        (SOUND | {"sha256": {"weights.npz": "a"}}, "must name weights.npz and vocabulary.txt"),
    ],
)
def test_damaged_description_is_one_line(tmp_path, content, says):
    write(tmp_path, content)
    with pytest.raises(SavedModelError, match=says) as caught:
        read_description(tmp_path)
    assert str(tmp_path / "model.json") in str(caught.value)
    assert "\n" not in str(caught.value)
