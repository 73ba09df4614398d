"""TLS for a cluster of one's own: an authority, and a certificate for each of its machines.

Every Ray process is server and client at once, and reaches the others by the addresses that they
gave: a certificate that does not name its machine's address is refused, and Ray's core then ends
the process without a word. So names and addresses are given once, here, and `security.check_reach`
looks at them before a cluster is joined.

Files: `ca.crt`, `ca.key` of an authority; `ca.crt`, `tls.crt`, `tls.key` of a machine. Keys have
mode 0600. ECDSA on P-256 (RFC 5480), X.509 v3 with subject alternative names (RFC 5280).
"""

import contextlib
import datetime
import ipaddress
import pathlib
import re
from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import oid

from tff_keyboard.program.errors import ClusterError
from tff_keyboard.storage import files

AUTHORITY, AUTHORITY_KEY = "ca.crt", "ca.key"
CERTIFICATE, KEY = "tls.crt", "tls.key"
LOOPBACK = ("localhost", "127.0.0.1")
_CLOCKS_DIFFER = datetime.timedelta(minutes=10)


def make_authority(out: pathlib.Path, days: int) -> None:
    """Writes `ca.crt` and `ca.key`; whoever has the key can join any machine to the cluster.

    A `ClusterError` if there is one already: its machines would trust it no longer.
    """
    if (out / AUTHORITY_KEY).exists():
        raise ClusterError(f"{out} has an authority already. Use it, or choose another --out.")
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("tff-keyboard cluster")
    certificate = (
        _builder(name, name, key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    files.make_directory(out)
    _write_key(out / AUTHORITY_KEY, key)
    _write_certificate(out / AUTHORITY, certificate)


def make_certificate(
    authority: pathlib.Path, names: Sequence[str], out: pathlib.Path, days: int
) -> None:
    """Writes `ca.crt`, `tls.crt` and `tls.key` of a machine, over those it may have had.

    `names` are IP addresses and DNS names of the machine, at least one; loopback is added. Raises
    `ClusterError` if there is no authority, or a name is none.
    """
    issuer, issuer_key = _read_authority(authority)
    key = ec.generate_private_key(ec.SECP256R1())
    alternatives = [_alternative(name) for name in dict.fromkeys((*names, *LOOPBACK))]
    both = [oid.ExtendedKeyUsageOID.SERVER_AUTH, oid.ExtendedKeyUsageOID.CLIENT_AUTH]
    certificate = (
        _builder(_name(names[0]), issuer.subject, key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True, key_agreement=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage(both), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .sign(issuer_key, hashes.SHA256())
    )
    files.make_directory(out)
    _write_key(out / KEY, key)
    _write_certificate(out / CERTIFICATE, certificate)
    _write_certificate(out / AUTHORITY, issuer)


def names_of(certificate: pathlib.Path) -> list[str]:
    """Addresses and DNS names in a certificate; none where it names none."""
    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
        alternatives = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    except (OSError, ValueError) as error:
        raise ClusterError(f"{certificate}: is no readable certificate ({error}).") from None
    return [str(name.value) for name in alternatives]


def _read_authority(folder: pathlib.Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    try:
        certificate = x509.load_pem_x509_certificate((folder / AUTHORITY).read_bytes())
        key = serialization.load_pem_private_key((folder / AUTHORITY_KEY).read_bytes(), None)
    except FileNotFoundError as error:
        raise ClusterError(
            f"{error.filename}: is missing. `tff-keyboard cluster authority --out={folder}` makes "
            "an authority."
        ) from None
    except (OSError, ValueError, TypeError) as error:
        raise ClusterError(f"{folder}: no authority can be read from it ({error}).") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ClusterError(f"{folder / AUTHORITY_KEY}: is not a key that `cluster authority` made.")
    return certificate, key


def _alternative(name: str) -> x509.GeneralName:
    with contextlib.suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(name.partition("%")[0]))
    if not _DNS_NAME.fullmatch(name) or len(name) > 253 or name.rpartition(".")[2].isdecimal():
        raise ClusterError(f"--name: {name!r} is neither an IP address nor a DNS name.")
    return x509.DNSName(name)


_LABEL = "[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DNS_NAME = re.compile(rf"(\*\.)?{_LABEL}(\.{_LABEL})*")  # RFC 1123; a wildcard as in RFC 6125


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(oid.NameOID.COMMON_NAME, common_name[:64])])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _usage(**granted: bool) -> x509.KeyUsage:
    kinds = (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
        "key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
    )  # fmt: skip
    return x509.KeyUsage(**(dict.fromkeys(kinds, False) | granted))


def _write_key(path: pathlib.Path, key: ec.EllipticCurvePrivateKey) -> None:
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    files.write_atomically(path, [pem], mode=files.OWNER_ONLY)


def _write_certificate(path: pathlib.Path, certificate: x509.Certificate) -> None:
    files.write_atomically(path, [certificate.public_bytes(serialization.Encoding.PEM)])
