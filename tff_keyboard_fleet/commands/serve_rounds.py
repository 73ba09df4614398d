"""Trains with devices: works like `train`, but clients check in over HTTP instead of being drawn.

tff-keyboard serve-rounds --config=configs/fleet.toml --workdir=runs/fleet

To resume, run the same command again, also after a kill: no accepted upload is lost, and no round
is released twice. Section [devices] of the config has the deadline and the conditions for devices.
Devices on other machines require HTTPS, from a proxy such as Caddy in front of this server.
docs/fleet/README.md has its configuration.
"""

import dataclasses
from typing import Annotated

from absl import flags

from tff_keyboard.command_line.options import ConfigOptions, Workdir
from tff_keyboard.host import quiet
from tff_keyboard.storage.errors import UsageError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(ConfigOptions):
    """Flags of `serve-rounds`."""

    workdir: Workdir
    host: Annotated[str, "Address to listen on. Only the proxy should reach it."] = "127.0.0.1"
    port: Annotated[int, "Port. 0 selects a free one.", flags.IntegerParser(0, 65_535)] = 8470

    def __post_init__(self) -> None:
        if self.config is None:
            raise UsageError("`serve-rounds` requires --config. See docs/fleet/README.md.")


def run(options: Options) -> None:
    """Serves rounds until the last one is released, or resumes.

    Raises:
      ConfigError: If the config has settings that devices do not support.
      ProgramError: If the address cannot be used, or if the disk is full.
    """
    from tff_keyboard.training import preflight
    from tff_keyboard_fleet.on_devices.served_config import as_served, min_reports_of

    config = options.run_config()
    as_served(config)  # before the slow imports
    preflight.check_defence(
        config.train, config.aggregation.rule, min_reports=min_reports_of(config)
    )
    quiet.import_tensorflow_federated()
    from tff_keyboard_fleet.on_devices import served_graph
    from tff_keyboard_fleet.on_devices.serve import serve_federated
    from tff_keyboard_fleet.round_server import serving

    serve_federated(
        config,
        options.workdir,
        serve=lambda app: serving.served(app, options.host, options.port),
        graph=served_graph,
    )
