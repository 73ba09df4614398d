"""A study whose TOML is nested deeply, or has a long number, is one line."""

import pytest

from tff_keyboard.storage.errors import ConfigError
from tff_keyboard_lab.study.plan import study_file


@pytest.mark.parametrize("value", ["[" * 100_000, "[" * 400 + "]" * 400, "9" * 5000, "9" * 400])
def test_is_one_line(value, tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(f"title = {value}\n")
    with pytest.raises(ConfigError) as caught:
        study_file.load(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200 + len(str(path))
