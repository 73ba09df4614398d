"""Converts TOML tables to frozen dataclasses, with error messages that a user can act on."""
