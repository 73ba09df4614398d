"""Digests of clients: the overlap they reveal, and the ids they hide."""

import stat

import pytest

from tff_keyboard.privacy.ledger import client_digests
from tff_keyboard.storage.errors import RunDirectoryError


@pytest.mark.parametrize(
    "one, other, expected",
    [
        ("abc", "abc", client_digests.SAME),
        ("abc", "bcd", client_digests.SOME),
        ("abc", "de", client_digests.NONE),
    ],
)
def test_overlap(one, other, expected):
    assert client_digests.salted(one).overlap(client_digests.salted(other)) == expected


def test_other_salts_cannot_be_compared_and_hide_ids(monkeypatch):
    monkeypatch.setenv("CLIENT_SECRET", "a secret of sixteen bytes or more")
    secret = client_digests.salted("abc", "env:CLIENT_SECRET")
    assert secret.overlap(client_digests.salted("abc")) == client_digests.UNKNOWN
    assert not secret.digests & client_digests.salted("abc").digests
    assert secret == client_digests.salted("cba", "env:CLIENT_SECRET")


def test_file_round_trip_and_mode(tmp_path):
    path = tmp_path / "client_digests"
    written = client_digests.salted(["ann", "bob"])
    client_digests.write(path, written)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert client_digests.read(path) == written
    assert b"ann" not in path.read_bytes()
    assert client_digests.read(tmp_path / "none") is None
    path.write_text("xyz\n")
    with pytest.raises(RunDirectoryError, match="is damaged"):
        client_digests.read(path)
