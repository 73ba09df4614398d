"""An authority, certificates of it, and what is said before a head that does not fit is joined."""

import contextlib
import datetime
import socket
import ssl
import threading

import pytest

from tasks import cli
from tasks.train import cluster as cluster_task
from tff_keyboard.program.cluster import certificates, security
from tff_keyboard.program.errors import ClusterError


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    folder = tmp_path_factory.mktemp("authority")
    certificates.make_authority(folder, 2)
    return folder


def machine(authority, folder, *names, days=1):
    """Ray's settings on a machine of these names."""
    certificates.make_certificate(authority, names, folder, days)
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_USE_TLS": "1",
        "RAY_TLS_SERVER_CERT": str(folder / "tls.crt"),
        "RAY_TLS_SERVER_KEY": str(folder / "tls.key"),
        "RAY_TLS_CA_CERT": str(folder / "ca.crt"),
    }


@contextlib.contextmanager
def head(settings, host="127.0.0.1"):
    """HOST:PORT of a server that wants a client's certificate, as Ray's does."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(settings["RAY_TLS_SERVER_CERT"], settings["RAY_TLS_SERVER_KEY"])
    context.load_verify_locations(settings["RAY_TLS_CA_CERT"])
    context.verify_mode = ssl.CERT_REQUIRED
    with socket.create_server((host, 0)) as listener:

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with contextlib.suppress(OSError), connection:
                        context.wrap_socket(connection, server_side=True).close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"{host}:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_keys_are_the_owners_and_certificates_name_their_machine(authority, tmp_path):
    machine(authority, tmp_path, "10.0.0.1", "ada.local", "2001:db8::1")
    for key in (authority / "ca.key", tmp_path / "tls.key"):
        assert key.stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "ca.key").exists()
    names = certificates.names_of(tmp_path / "tls.crt")
    assert names == ["10.0.0.1", "ada.local", "2001:db8::1", *certificates.LOOPBACK]


def test_both_sides_accept_each_other(authority, tmp_path, monkeypatch):
    ada, bob = (machine(authority, tmp_path / name, "127.0.0.1") for name in ("ada", "bob"))
    monkeypatch.setattr(security, "_own_address", str)
    with head(ada) as address:
        security.check_reach(address, bob)
    security.check_reach("local", {})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.5"])
def test_a_certificate_that_does_not_fit_is_one_line_with_the_remedy(authority, tmp_path, host):
    named = machine(authority, tmp_path / "named", "127.0.0.5")
    certificates.make_authority(tmp_path / "stranger", 2)
    strangers = machine(tmp_path / "stranger", tmp_path / "theirs", host)
    with (
        head(strangers, host) as address,
        pytest.raises(
            ClusterError, match=rf"head's certificate.*cluster certificate --name={host}"
        ),
    ):
        security.check_reach(address, named)
    unnamed = machine(authority, tmp_path / "unnamed", "10.0.0.1")
    if host not in certificates.LOOPBACK:
        with (
            head(unnamed, host) as address,
            pytest.raises(ClusterError, match=rf"head's certificate.*name {host}"),
        ):
            security.check_reach(address, named)


def test_our_own_certificate_must_be_what_others_accept(authority, tmp_path, monkeypatch):
    """A handshake of TLS 1.3 ends before the head says what it thinks of ours."""
    heads = machine(authority, tmp_path / "head", "127.0.0.1")
    unnamed = machine(authority, tmp_path / "unnamed", "10.0.0.1")
    security._check_own("10.0.0.1", unnamed)
    certificates.make_authority(tmp_path / "stranger", 2)
    strange = machine(tmp_path / "stranger", tmp_path / "strange", "10.0.0.9")
    strange["RAY_TLS_CA_CERT"] = unnamed["RAY_TLS_CA_CERT"]
    monkeypatch.setattr(certificates, "_CLOCKS_DIFFER", datetime.timedelta(days=2))
    expired = machine(authority, tmp_path / "expired", "10.0.0.9", days=-1)
    monkeypatch.setattr(security, "_own_address", lambda found: "10.0.0.9")
    with head(heads) as address:
        for ours, why in (
            (unnamed, "mismatch"),
            (strange, "issuer|signature"),
            (expired, "expired"),
        ):
            says = rf"RAY_TLS_SERVER_CERT does not fit: .*({why}).*--name=10\.0\.0\.9"
            with pytest.raises(ClusterError, match=says):
                security.check_reach(address, ours)


def test_loopback_is_not_how_others_reach_a_machine():
    assert security._own_address("10.0.0.3") == "10.0.0.3"
    assert security._own_address("127.0.0.1")  # another address where there is a network


@pytest.mark.parametrize("name", ["", "999.1.1.1", "*", "x*y", "-x", "a b", "x..y", "a" * 64])
def test_names_that_are_none_are_refused(authority, tmp_path, name):
    with pytest.raises(ClusterError, match=r"--name: .* neither an IP address nor a DNS name"):
        certificates.make_certificate(authority, [name], tmp_path, 1)


def test_nobody_there_and_no_tls_there_are_one_line(authority, tmp_path):
    ours = machine(authority, tmp_path, "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ClusterError, match=r"Nothing answers at 127.*ray start --head"):
        security.check_reach(f"127.0.0.1:{port}", ours)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer_in_plain_text():
            connection, _ = listener.accept()
            with connection:
                connection.recv(1)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer_in_plain_text)
        thread.start()
        with pytest.raises(ClusterError, match="does not speak TLS with us"):
            security.check_reach(f"127.0.0.1:{listener.getsockname()[1]}", ours)
        thread.join()


def test_damaged_files_are_one_line(authority, tmp_path):
    ours = machine(authority, tmp_path, "127.0.0.1")
    (tmp_path / "tls.key").write_text("damaged")
    heads = machine(authority, tmp_path / "head", "127.0.0.1")
    says = "do not fit together or cannot be read"
    with head(heads) as address, pytest.raises(ClusterError, match=says):
        security.check_reach(address, ours)
    (tmp_path / "tls.crt").write_text("damaged")
    with pytest.raises(ClusterError, match="is no readable certificate"):
        certificates.names_of(tmp_path / "tls.crt")


def test_an_authority_is_not_replaced_and_must_be_there(authority, tmp_path):
    with pytest.raises(ClusterError, match="has an authority already"):
        certificates.make_authority(authority, 2)
    with pytest.raises(ClusterError, match=r"ca\.crt: is missing.*cluster authority"):
        certificates.make_certificate(tmp_path / "none", ["10.0.0.1"], tmp_path, 1)
    (tmp_path / "ca.crt").write_text("damaged")
    (tmp_path / "ca.key").write_text("damaged")
    with pytest.raises(ClusterError, match="no authority can be read"):
        certificates.make_certificate(tmp_path, ["10.0.0.1"], tmp_path, 1)


def test_the_commands(tmp_path, capsys):
    folder, own = tmp_path / "authority", tmp_path / "own"
    assert cli.launch(cluster_task, ["authority", f"--out={folder}"]) == cli.OK
    words = ["certificate", f"--authority={folder}", "--name=10.0.0.1", f"--out={own}"]
    assert cli.launch(cluster_task, words) == cli.OK
    assert cli.launch(cluster_task, words) == cli.OK  # renewed
    assert {path.name for path in own.iterdir()} == {"ca.crt", "tls.crt", "tls.key"}
    assert cli.launch(cluster_task, ["authority", f"--out={folder}"]) == cli.MACHINE
    assert cli.launch(cluster_task, ["certificate", f"--out={own}"]) == cli.USAGE
    assert "`cluster certificate` needs --authority, --name" in capsys.readouterr().err
