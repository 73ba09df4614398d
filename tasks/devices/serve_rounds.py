"""Trains on what devices send: `train`, whose clients check in over HTTPS instead of being drawn.

tff-keyboard serve-rounds --config=configs/fleet.toml --workdir=runs/fleet
tff-keyboard serve-rounds --config=configs/fleet.toml --workdir=runs/fleet --host=0.0.0.0 \\
    --port=443 --certificate=fullchain.pem --certificate-key=privkey.pem

Killed at any moment and started again with the same command, it goes on: no accepted upload is
lost, and no round is released twice. `[devices]` of the config has deadline and conditions;
docs/fleet/README.md says how a fleet is run. Without a certificate one is made at the first start,
and its fingerprint printed, for devices to pin.
"""

import contextlib
import dataclasses
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from ..options import ConfigOptions, Range, Workdir
from tff_keyboard.host import quiet
from tff_keyboard.storage.errors import UsageError
from tff_keyboard.wire.messages import LOOPBACK

if TYPE_CHECKING:
    from tff_keyboard.round_server.app import RoundApplication


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(ConfigOptions):
    """What the task can be told."""

    workdir: Workdir
    host: Annotated[str, "Address to listen on; 0.0.0.0 is all of this machine."] = "127.0.0.1"
    port: Annotated[int, "Port; 0 takes any free one.", Range(0, 65_535)] = 8470
    tls: Annotated[bool, "Serve HTTPS; without it loopback only, as behind a proxy."] = True
    certificate: Annotated[
        pathlib.Path | None, "Certificate chain in PEM; one is made if left out."
    ] = None
    certificate_key: Annotated[pathlib.Path | None, "Private key of --certificate, PEM."] = None
    server_key: Annotated[
        pathlib.Path | None,
        "Ed25519 key that signs participation tokens, PEM; made in the run directory if left out.",
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.config is None:
            raise UsageError("`serve-rounds` needs --config. See docs/fleet/README.md.")
        if (self.certificate is None) != (self.certificate_key is None):
            raise UsageError("--certificate and --certificate-key belong together. Give both.")
        if not self.tls and (self.certificate is not None or self.host not in LOOPBACK):
            raise UsageError(
                f"--no-tls is for loopback, without a certificate; got --host={self.host}. Leave "
                "it out, or let a proxy of this machine have the certificate."
            )


def run(options: Options) -> None:
    """Serves rounds until the last one is released; called again, it resumes.

    Raises:
      ConfigError: The config asks for what devices do not do.
      ProgramError: The address cannot be used, or the disk is full.
    """
    from tff_keyboard.training.on_devices.served_config import as_served

    config = options.run_config()
    as_served(config)  # before what takes longer to import
    quiet.import_tensorflow_federated()
    from tff_keyboard.training.on_devices.serve import serve_federated
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
    from tff_keyboard.round_server import serving
    from tff_keyboard.storage.run_directory import RunDirectory

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
