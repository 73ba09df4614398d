"""Digests of clients: the overlap they reveal, and the ids they hide."""

import stat

import pytest

from tff_keyboard.privacy.ledger import people
from tff_keyboard.storage.errors import RunDirectoryError


@pytest.mark.parametrize(
    "one, other, expected",
    [
        ("abc", "abc", people.SAME),
        ("abc", "bcd", people.SOME),
        ("abc", "de", people.NONE),
    ],
)
def test_overlap(one, other, expected):
    assert people.salted(one).overlap(people.salted(other)) == expected


def test_other_salts_cannot_be_compared_and_hide_ids(monkeypatch):
    monkeypatch.setenv("PEOPLE_SECRET", "a secret of sixteen bytes or more")
    secret = people.salted("abc", "env:PEOPLE_SECRET")
    assert secret.overlap(people.salted("abc")) == people.UNKNOWN
    assert not secret.digests & people.salted("abc").digests
    assert secret == people.salted("cba", "env:PEOPLE_SECRET")


def test_file_round_trip_and_mode(tmp_path):
    path = tmp_path / "people_digests"
    written = people.salted(["ann", "bob"])
    people.write(path, written)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert people.read(path) == written
    assert b"ann" not in path.read_bytes()
    assert people.read(tmp_path / "none") is None
    path.write_text("xyz\n")
    with pytest.raises(RunDirectoryError, match="is damaged"):
        people.read(path)
