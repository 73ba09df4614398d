"""A cluster requires a token, and other machines also require TLS."""

import sys
import types
from concurrent import futures

import grpc
import pytest

from tff_keyboard.execution.cluster import node_facts, ray_client, security
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


def test_a_directory_is_private_if_it_or_one_above_it_is_closed(tmp_path):
    tmp_path.chmod(0o755)
    session = tmp_path / "ray" / "session" / "sockets"
    session.mkdir(parents=True)
    for path in (session, session.parent, session.parent.parent):
        path.chmod(0o777)
    is_open_above = all(path.stat().st_mode & 0o077 for path in tmp_path.parents)
    assert security.is_private(session) is not is_open_above
    (tmp_path / "ray").chmod(0o700)
    assert security.is_private(session)


def test_a_process_that_joined_nothing_has_no_directory(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray._private.worker", None)
    assert security.directory_of_ray() is None
    security.check_directory()


def test_a_directory_that_others_can_enter_is_refused(monkeypatch, tmp_path):
    for path in (tmp_path, *tmp_path.parents):
        if not path.stat().st_mode & 0o077:
            path.chmod(0o755)
    node = types.SimpleNamespace(get_session_dir_path=lambda: str(tmp_path))
    worker = types.SimpleNamespace(_global_node=node)
    monkeypatch.setitem(sys.modules, "ray._private.worker", worker)
    with pytest.raises(ClusterError, match=r"Other users .*--temp-dir=DIRECTORY/ray"):
        security.check_directory()
    assert node_facts.facts({})["directory of Ray"] == "open to other users"
    tmp_path.chmod(0o700)
    security.check_directory()
    assert node_facts.facts({})["directory of Ray"] == "closed"


class Head(grpc.GenericRpcHandler):
    """Answers every call with an empty message, or only calls with a token."""

    def __init__(self, asks_for_token):
        self._asks_for_token = asks_for_token

    def service(self, call):
        def answer(request, context):
            if self._asks_for_token:
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "no token")
            return b""

        return grpc.unary_unary_rpc_method_handler(answer)


def test_a_head_that_does_not_answer_is_not_trusted(monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setattr(ray_client, "_ANSWER_OF_HEAD", 0.5)
    with pytest.raises(ClusterError, match=r"Cannot check whether .* asks for a token"):
        ray_client._refuse_open_cluster("127.0.0.1:9")


@pytest.mark.parametrize("asks_for_token", [False, True])
def test_a_head_that_asks_for_no_token_is_refused(asks_for_token, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # nothing there
    server = grpc.server(futures.ThreadPoolExecutor(1), handlers=[Head(asks_for_token)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        if asks_for_token:
            ray_client._refuse_open_cluster(f"127.0.0.1:{port}")
        else:
            with pytest.raises(ClusterError, match=r"asks for no token.*RAY_AUTH_MODE=token"):
                ray_client._refuse_open_cluster(f"127.0.0.1:{port}")
    finally:
        server.stop(None)
