"""Parts are found without an import, packages that are missing are left out, names are unique."""

import re

import pytest

from tests.support.fake_distribution import install
from tff_keyboard.storage import entry_points
from tff_keyboard.storage.errors import ProgramError

GROUP = "tff_keyboard.test_group"


@pytest.fixture(autouse=True)
def _no_cache():
    entry_points.find.cache_clear()
    yield
    entry_points.find.cache_clear()


def test_finds_the_parts_of_another_package(tmp_path, monkeypatch):
    install(tmp_path, "other", {GROUP: {"seven": "other_part:SEVEN"}})
    (tmp_path / "other_part.py").write_text("SEVEN = 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert {name: point.load() for name, point in entry_points.find(GROUP).items()} == {"seven": 7}


def test_leaves_out_a_package_that_is_not_installed(tmp_path, monkeypatch):
    install(tmp_path, "other", {GROUP: {"seven": "package_that_is_missing.parts:SEVEN"}})
    monkeypatch.syspath_prepend(tmp_path)
    assert entry_points.find(GROUP) == {}


def test_rejects_two_parts_of_one_name(tmp_path, monkeypatch):
    install(tmp_path, "one", {GROUP: {"seven": "json:loads"}})
    install(tmp_path, "two", {GROUP: {"seven": "json:dumps"}})
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ProgramError, match=re.escape("'seven'")) as error:
        entry_points.find(GROUP)
    assert "json:loads" in str(error.value)
    assert "json:dumps" in str(error.value)
