"""The configuration of a run: frozen dataclasses read from TOML. Imports no TensorFlow."""

from tff_keyboard.config.config_file import (
    as_run,
    dump,
    from_dict,
    load,
    load_of_run,
    loads,
    of_this_version,
    override,
    rounds_of_cosines,
    to_dict,
)
from tff_keyboard.config.run_config import RunConfig
from tff_keyboard.storage.errors import ConfigError

__all__ = [
    "ConfigError",
    "RunConfig",
    "as_run",
    "dump",
    "from_dict",
    "load",
    "load_of_run",
    "loads",
    "of_this_version",
    "override",
    "rounds_of_cosines",
    "to_dict",
]
