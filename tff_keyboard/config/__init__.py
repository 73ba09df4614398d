"""Run configuration: frozen dataclasses read from TOML. Imports no TensorFlow."""

from tff_keyboard.config.config_file import (
    ConfigError,
    RunConfig,
    dump,
    from_dict,
    load,
    loads,
    to_dict,
)

__all__ = ["ConfigError", "RunConfig", "dump", "from_dict", "load", "loads", "to_dict"]
