"""A cluster requires a token, and other machines also require TLS."""

import pytest

from tff_keyboard.execution.cluster import security
from tff_keyboard.storage.errors import ClusterError

TOKEN = {"RAY_AUTH_MODE": "token"}


@pytest.fixture
def tls(tmp_path):
    settings = {"RAY_USE_TLS": "1"}
    for name in ("RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT"):
        (tmp_path / name).write_text("made up")
        settings[name] = str(tmp_path / name)
    return settings


@pytest.mark.parametrize(
    "configured, variable, address",
    [
        ("10.0.0.1:6379", "", "10.0.0.1:6379"),
        ("", "head:6379", "head:6379"),
        ("[::1]:6379", "head:6379", "[::1]:6379"),
        ("local", "head:6379", "local"),
    ],
)
def test_the_config_wins_over_the_environment(configured, variable, address):
    assert security.address_of(configured, {"RAY_ADDRESS": variable}) == address


@pytest.mark.parametrize("configured", ["", "head", "head:", ":6379", "ray://head:10001", "auto"])
def test_rejects_addresses(configured):
    with pytest.raises(ClusterError, match=r"HOST:PORT .*docs/cluster\.md"):
        security.address_of(configured, {})


def test_local_cluster_needs_no_settings():
    security.check("local", {})


@pytest.mark.parametrize("address", ["127.0.0.1:6379", "localhost:6379", "[::1]:6379"])
def test_this_machine_needs_a_token(address):
    security.check(address, TOKEN)
    for settings in ({}, {"RAY_AUTH_MODE": "disabled"}):
        with pytest.raises(ClusterError, match="RAY_AUTH_MODE=token"):
            security.check(address, settings)


@pytest.mark.parametrize("address", ["10.0.0.1:6379", "[2001:db8::1]:6379", "no.such.invalid:1"])
def test_other_machines_need_both(address, tls):
    security.check(address, TOKEN | tls)
    with pytest.raises(ClusterError, match="RAY_AUTH_MODE=token"):
        security.check(address, tls)
    with pytest.raises(ClusterError, match="RAY_USE_TLS=1 is required"):
        security.check(address, TOKEN)


@pytest.mark.parametrize("address", ["127.0.0.1:6379", "10.0.0.1:6379"])
def test_certificates_must_be_there(address, tls):
    for name in list(tls)[1:]:
        with pytest.raises(ClusterError, match=name):
            security.check(address, TOKEN | tls | {name: "/nowhere"})
