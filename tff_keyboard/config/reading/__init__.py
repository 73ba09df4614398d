"""From TOML tables to frozen dataclasses, with messages a person can act on."""
