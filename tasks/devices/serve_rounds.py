"""Trains with devices: works like `train`, but clients check in over HTTPS instead of being drawn.

tff-keyboard serve-rounds --config=configs/fleet.toml --workdir=runs/fleet
tff-keyboard serve-rounds --config=configs/fleet.toml --workdir=runs/fleet --host=0.0.0.0 \\
    --port=443 --certificate=fullchain.pem --certificate-key=privkey.pem

To resume, run the same command again, also after a kill: no accepted upload is lost, and no round
is released twice. Section [devices] of the config has the deadline and the conditions for devices.
Without --certificate, the first start creates a certificate and prints its fingerprint, so that
devices can pin it. docs/fleet/README.md describes how to run a fleet.
"""

import contextlib
import dataclasses
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from ..options import Bounds, ConfigOptions, Workdir
from tff_keyboard.host import quiet
from tff_keyboard.storage.errors import UsageError
from tff_keyboard_fleet.wire.messages import LOOPBACK

if TYPE_CHECKING:
    from tff_keyboard_fleet.round_server.app import RoundApplication


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(ConfigOptions):
    """Flags of `serve-rounds`."""

    workdir: Workdir
    host: Annotated[str, "Address to listen on. 0.0.0.0 listens on all interfaces."] = "127.0.0.1"
    port: Annotated[int, "Port. 0 selects a free one.", Bounds(0, 65_535)] = 8470
    tls: Annotated[
        bool, "Serve HTTPS. --no-tls works only on the loopback interface, for use with a proxy."
    ] = True
    certificate: Annotated[
        pathlib.Path | None, "PEM file with the certificate chain. Default: a new certificate."
    ] = None
    certificate_key: Annotated[
        pathlib.Path | None, "PEM file with the private key of --certificate."
    ] = None
    server_key: Annotated[
        pathlib.Path | None,
        "PEM file with the Ed25519 key that signs participation tokens. Default: a new key in the "
        "run directory.",
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.config is None:
            raise UsageError("`serve-rounds` requires --config. See docs/fleet/README.md.")
        if (self.certificate is None) != (self.certificate_key is None):
            raise UsageError("--certificate and --certificate-key belong together. Pass both.")
        if not self.tls and (self.certificate is not None or self.host not in LOOPBACK):
            raise UsageError(
                f"--no-tls requires a loopback address and no certificate, got --host={self.host}. "
                "Leave --no-tls out, or run a proxy with the certificate on this machine."
            )


def run(options: Options) -> None:
    """Serves rounds until the last one is released, or resumes.

    Raises:
      ConfigError: If the config has settings that devices do not support.
      ProgramError: If the address cannot be used, or if the disk is full.
    """
    from tff_keyboard_fleet.on_devices.served_config import as_served

    config = options.run_config()
    as_served(config)  # before the slow imports
    quiet.import_tensorflow_federated()
    from tff_keyboard_fleet.on_devices.serve import serve_federated
    from tflite_export.export import served_graph

    serve_federated(
        config,
        options.workdir,
        serve=lambda app: _served(app, options),
        graph=served_graph,
        key_path=options.server_key,
    )


@contextlib.contextmanager
def _served(app: "RoundApplication", options: Options) -> Iterator[None]:
    from tff_keyboard.storage.run_directory import RunDirectory
    from tff_keyboard_fleet.round_server import serving

    certificate = None
    if options.certificate is not None and options.certificate_key is not None:
        certificate = options.certificate, options.certificate_key
    elif options.tls:
        certificate = serving.open_certificate(
            RunDirectory(options.workdir).round_server, options.host
        )
    server = serving.RoundServer(app, options.host, options.port, certificate)
    server.start()
    try:
        scheme = "https" if certificate else "http"
        print(f"Rounds: {scheme}://{options.host}:{server.port}", flush=True)
        if certificate:
            print(f"Certificate, SHA-256: {serving.fingerprint(certificate[0])}", flush=True)
        yield
    finally:
        server.stop()
