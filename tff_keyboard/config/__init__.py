"""Run configuration: frozen dataclasses read from TOML. Imports no TensorFlow."""

from tff_keyboard.config.config_file import (
    RunConfig,
    dump,
    from_dict,
    load,
    loads,
    to_dict,
)
from tff_keyboard.storage.errors import ConfigError

__all__ = ["ConfigError", "RunConfig", "dump", "from_dict", "load", "loads", "to_dict"]
